import { toFailure } from '../../activities/failures.ts';
import { errorOf, unavailable } from '../../kube/errors.ts';

const request = { verb: 'patch', resource: 'nodes', name: 'n1' };
const answered = (status: number) =>
  errorOf(request, { status, text: JSON.stringify({ kind: 'Status', message: 'the words' }) });

test.each([
  { when: 'rights that a person can grant', error: answered(403), type: 'Forbidden', final: false },
  { when: 'credentials that a person can renew', error: answered(401), type: 'Forbidden', final: false },
  { when: 'an object that is wrong', error: answered(422), type: 'Invalid', final: true },
  { when: 'an apiserver in trouble', error: answered(500), type: 'Unavailable', final: false },
  { when: 'another writer', error: answered(409), type: 'Unavailable', final: false },
  {
    when: 'no answer',
    error: unavailable(request, new Error('the words')),
    type: 'Unavailable',
    final: false,
  },
])("A request that fails for $when is $type, in the apiserver's words", ({ error, type, final }) => {
  expect(toFailure(error)).toMatchObject({
    type,
    nonRetryable: final,
    message: expect.stringMatching(/^patch nodes n1: .*the words/),
  });
});

test('An error of our own stays what it is', () => {
  const bug = new TypeError('nodes is undefined');
  expect(toFailure(bug)).toBe(bug);
});
