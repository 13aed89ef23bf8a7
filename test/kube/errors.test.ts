import { errorOf, isKubeError, KubeErrorKind, unavailable, errorMessage } from '../../kube/errors.ts';

const request = { verb: 'evict', resource: 'pods', namespace: 'shop', name: 'web-1' };
const status = (body: object) =>
  JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', ...body });
const budget = status({
  message: "Cannot evict pod as it would violate the pod's disruption budget.",
  reason: 'TooManyRequests',
  details: {
    causes: [
      {
        reason: 'DisruptionBudget',
        message: 'The disruption budget web needs 2 healthy pods and has 2 currently',
      },
    ],
  },
});

describe('an answer of the apiserver', () => {
  test.each([
    { answer: 401, text: status({ reason: 'Unauthorized' }), kind: KubeErrorKind.Unauthorized },
    { answer: 403, text: status({ reason: 'Forbidden' }), kind: KubeErrorKind.Forbidden },
    {
      answer: 403,
      text: status({ details: { causes: [{ reason: 'NamespaceTerminating' }] } }),
      kind: KubeErrorKind.NamespaceTerminating,
    },
    { answer: 404, text: status({ reason: 'NotFound' }), kind: KubeErrorKind.NotFound },
    { answer: 409, text: status({ reason: 'AlreadyExists' }), kind: KubeErrorKind.AlreadyExists },
    { answer: 409, text: status({ reason: 'Conflict' }), kind: KubeErrorKind.Conflict },
    { answer: 410, text: status({ reason: 'Expired' }), kind: KubeErrorKind.Expired },
    { answer: 400, text: status({ reason: 'BadRequest' }), kind: KubeErrorKind.Invalid },
    { answer: 422, text: status({ reason: 'Invalid' }), kind: KubeErrorKind.Invalid },
    {
      answer: 422,
      text: status({ reason: 'Invalid', details: { causes: [{ field: 'metadata.uid' }] } }),
      kind: KubeErrorKind.Conflict,
    },
    { answer: 429, text: 'Too many requests, please try again later.\n', kind: KubeErrorKind.Throttled },
    { answer: 429, text: budget, kind: KubeErrorKind.DisruptionRejected },
    {
      answer: 429,
      text: status({
        message: 'admission webhook "evictions.example.com" denied the request: moved in another way',
        reason: 'TooManyRequests',
      }),
      kind: KubeErrorKind.Forbidden,
    },
    ...[404, 409, 500].map((answer) => ({
      answer,
      text: status({
        message: `admission webhook "strimzi-drain-cleaner.strimzi.io" denied the request: ${answer}, the pod will be rolled`,
        ...(answer === 404 && { reason: 'NotFound' }),
      }),
      kind: KubeErrorKind.Forbidden,
    })),
    { answer: 503, text: 'no healthy upstream', kind: KubeErrorKind.Unavailable },
  ])('of $answer $text means $kind', ({ answer, text, kind }) => {
    const error = errorOf(request, { status: answer, text });
    expect(error.kind).toBe(kind);
    expect(isKubeError(error, kind)).toBe(true);
  });

  // A webhook that fails itself often denies with 500: what it denies is not wrong.
  test.each([
    { answer: 400, kind: KubeErrorKind.Invalid },
    { answer: 500, kind: KubeErrorKind.Unavailable },
  ])('of a webhook that denies another request with $answer means $kind', ({ answer, kind }) => {
    const text = status({ message: 'admission webhook "x.example.com" denied the request: no answer' });
    const creation = { verb: 'create', resource: 'jobs.batch', namespace: 'shop', name: 'patch' };
    expect(errorOf(creation, { status: answer, text }).kind).toBe(kind);
  });

  test('becomes one line: verb, resource, object and the message of the apiserver, including causes', () => {
    expect(errorOf(request, { status: 429, text: budget }).message).toBe(
      "evict pods shop/web-1: Cannot evict pod as it would violate the pod's disruption budget. " +
        'The disruption budget web needs 2 healthy pods and has 2 currently',
    );
  });

  test('contains when to retry, from the body or the header', () => {
    const body = status({ details: { retryAfterSeconds: 10 } });
    expect(errorOf(request, { status: 429, text: body, retryAfter: '1' }).retryAfterSeconds).toBe(10);
    expect(
      errorOf(request, { status: 429, text: 'Too many requests', retryAfter: '1' }).retryAfterSeconds,
    ).toBe(1);
    expect(errorOf(request, { status: 429, text: budget }).retryAfterSeconds).toBeUndefined();
  });
});

test('a request without an answer keeps its cause', () => {
  const cause = new AggregateError(
    [new Error('connect ECONNREFUSED ::1:6443'), new Error('connect ECONNREFUSED 127.0.0.1:6443')],
    '',
  );
  const error = unavailable({ verb: 'list', resource: 'nodes' }, cause);
  expect(error.cause).toBe(cause);
  expect(error.message).toBe(
    'list nodes: no answer from the apiserver: connect ECONNREFUSED ::1:6443; connect ECONNREFUSED 127.0.0.1:6443',
  );
});

test('an error message is one line', () => {
  expect(errorMessage(new Error('first\n  second\n'))).toBe('first second');
  expect(errorMessage('plain')).toBe('plain');
});
