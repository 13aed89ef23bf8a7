import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { nodeTokenClaims, renewsAt } from '../../../domain/common/nodeToken.ts';

const token = (claims: unknown) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;
const kubernetes = {
  namespace: 'node-maintenance',
  serviceaccount: { name: 'node-maintenance-agent', uid: 'a' },
  node: { name: 'node-1', uid: 'n' },
};

test('a token that is bound to a Node is renewed at half of its time', () => {
  const claims = nodeTokenClaims(token({ iat: 1_000, exp: 3_000, 'kubernetes.io': kubernetes }));
  expect(claims).toMatchObject({
    namespace: 'node-maintenance',
    serviceAccount: 'node-maintenance-agent',
    node: { name: 'node-1', uid: 'n' },
  });
  expect(claims && renewsAt(claims)).toEqual(new Date(2_000_000));
});

test.each<{ when: string; text: string }>([
  {
    when: 'a token of a pod, which the kubelet renews',
    text: token({ iat: 1, exp: 2, 'kubernetes.io': { ...kubernetes, pod: { name: 'p' } } }),
  },
  {
    when: 'a token without a node',
    text: token({ iat: 1, exp: 2, 'kubernetes.io': { ...kubernetes, node: undefined } }),
  },
  {
    when: 'a token without a namespace',
    text: token({ iat: 1, exp: 2, 'kubernetes.io': { ...kubernetes, namespace: undefined } }),
  },
  {
    when: 'a token without the name of its ServiceAccount',
    text: token({ iat: 1, exp: 2, 'kubernetes.io': { ...kubernetes, serviceaccount: { uid: 'a' } } }),
  },
  { when: 'a token that does not expire', text: token({ iat: 1, 'kubernetes.io': kubernetes }) },
  { when: 'a token of another issuer', text: token({ iat: 1, exp: 2 }) },
  { when: 'another text', text: 'secret' },
])('$when is not renewed', ({ text }) => {
  expect(nodeTokenClaims(text)).toBeUndefined();
});

test('any text is read without failing', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json().map((json) => token(json)),
      ),
      (text) => void nodeTokenClaims(text),
    ),
  );
});
