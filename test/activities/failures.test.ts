import { toFailure } from '../../activities/failures.ts';
import { errorOf, unavailable } from '../../kube/errors.ts';

const request = { verb: 'patch', resource: 'nodes', name: 'n1' };
const answered = (status: number) =>
  errorOf(request, { status, text: JSON.stringify({ kind: 'Status', message: 'the message' }) });

test.each([
  {
    when: 'missing permissions, which can be granted',
    error: answered(403),
    type: 'Forbidden',
    final: false,
  },
  {
    when: 'expired credentials, which can be renewed',
    error: answered(401),
    type: 'Forbidden',
    final: false,
  },
  { when: 'an invalid object', error: answered(422), type: 'Invalid', final: true },
  { when: 'an internal error of the apiserver', error: answered(500), type: 'Unavailable', final: false },
  { when: 'a conflict', error: answered(409), type: 'Unavailable', final: false },
  {
    when: 'no answer',
    error: unavailable(request, new Error('the message')),
    type: 'Unavailable',
    final: false,
  },
])("a request that fails for $when is $type, with the apiserver's message", ({ error, type, final }) => {
  expect(toFailure(error)).toMatchObject({
    type,
    nonRetryable: final,
    message: expect.stringMatching(/^patch nodes n1: .*the message/),
  });
});

test('an error that is not from the apiserver is not converted', () => {
  const bug = new TypeError('nodes is undefined');
  expect(toFailure(bug)).toBe(bug);
});
