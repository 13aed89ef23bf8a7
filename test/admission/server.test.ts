import { request, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type KeyPair, type Material, take } from '../../admission/certificates.ts';
import { maintenanceWebhook, type Verdict } from '../../admission/review.ts';
import { createAdmissionServer } from '../../admission/server.ts';
import { usualLifetimes } from '../../domain/certificates.ts';
import { silentLog } from '../kit/cluster.ts';

const answering = (verdict: Verdict) => maintenanceWebhook(() => Promise.resolve(verdict));

let server: Server;
let authority: KeyPair;

beforeAll(async () => {
  const context = { hosts: ['127.0.0.1'], lifetimes: usualLifetimes, now: Date.now() };
  let material: Material = { authorities: [], serving: undefined };
  material = await take({ kind: 'IssueAuthority' }, material, context);
  material = await take({ kind: 'IssueServing', authority: 0 }, material, context);
  [authority] = material.authorities as [KeyPair];
  server = createAdmissionServer(
    {
      '/allow': answering({ kind: 'Allowed', warnings: ['mind the gap'] }),
      '/refuse': answering({ kind: 'Refused', reason: 'Forbidden', message: 'no' }),
      '/fail': maintenanceWebhook(() => Promise.reject(new Error('the apiserver is away'))),
    },
    silentLog,
  );
  server.setSecureContext({ cert: material.serving?.certificate, key: material.serving?.key });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterAll(() => {
  server.close();
});

interface Sent {
  path?: string;
  method?: string;
  type?: string;
  body?: string;
}

function answerTo({ path = '/allow', method = 'POST', type = 'application/json', body = '' }: Sent) {
  const { port } = server.address() as AddressInfo;
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        ca: authority.certificate,
        agent: false,
        headers: { 'content-type': type },
      },
      (incoming) => {
        text(incoming).then((answer) => resolve({ status: incoming.statusCode, body: answer }), reject);
      },
    );
    outgoing.once('error', reject);
    outgoing.end(body);
  });
}

const object = {
  metadata: { name: 'rack-7' },
  spec: { stage: 'Idle', nodeSelector: { nodeSelectorTerms: [] } },
};
const asked = { uid: 'u', operation: 'CREATE', userInfo: { username: 'jane' }, object, oldObject: null };
const review = (differs: object = {}) =>
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { ...asked, ...differs },
  });

describe('the admission server answers', () => {
  test('a review with the verdict, its warnings, and the UID of the request', async () => {
    const { status, body } = await answerTo({ body: review() });
    expect({ status, ...JSON.parse(body) }).toEqual({
      status: 200,
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u', allowed: true, warnings: ['mind the gap'] },
    });
  });

  test('a review with the reason of a refusal', async () => {
    const { body } = await answerTo({ path: '/refuse', body: review() });
    expect(JSON.parse(body).response).toEqual({
      uid: 'u',
      allowed: false,
      status: { code: 403, reason: 'Forbidden', message: 'no' },
    });
  });

  test.each<Sent & { when: string; status: number; says: string }>([
    { when: 'a path that is not served', path: '/', status: 404, says: 'no webhook is served at /' },
    {
      when: 'a name of Object',
      path: '/constructor',
      status: 404,
      says: 'no webhook is served at /constructor',
    },
    { when: 'a GET', method: 'GET', status: 405, says: 'expected POST' },
    { when: 'a form', type: 'text/plain', status: 415, says: 'expected content-type application/json' },
    { when: 'nothing', status: 400, says: 'expected an AdmissionReview in JSON' },
    { when: 'half an object', body: '{"kind":', status: 400, says: 'expected an AdmissionReview in JSON' },
    { when: 'another object', body: '{"kind":"Pod"}', status: 400, says: 'AdmissionReview: apiVersion: ' },
    { when: 'null', body: 'null', status: 400, says: 'AdmissionReview: ' },
    {
      when: 'no user',
      body: review({ userInfo: null }),
      status: 400,
      says: 'AdmissionReview: request.userInfo: ',
    },
    {
      when: 'an operation that there is not',
      body: review({ operation: 'PAINT' }),
      status: 400,
      says: 'AdmissionReview: request.operation: ',
    },
    {
      when: 'a maintenance without a selector',
      body: review({ object: { metadata: {}, spec: { stage: 'Idle' } } }),
      status: 400,
      says: 'AdmissionReview: request.object.spec.nodeSelector: ',
    },
    {
      when: 'a deletion of nothing',
      body: review({ operation: 'DELETE' }),
      status: 400,
      says: 'AdmissionReview: request.oldObject: ',
    },
    {
      when: 'a review that cannot be decided',
      path: '/fail',
      body: review(),
      status: 500,
      says: 'the apiserver is away',
    },
  ])('$when with $status', async ({ status, says, ...sent }) => {
    expect(await answerTo(sent)).toEqual({ status, body: expect.stringContaining(says) });
    expect(await answerTo({ body: review() })).toMatchObject({ status: 200 });
  });

  test('more than it takes with 413, or by hanging up, and lives on', async () => {
    const body = 'x'.repeat(9 * 1024 * 1024);
    const answer = await answerTo({ body }).catch(() => ({ status: 413 }));
    expect(answer).toMatchObject({ status: 413 });
    expect(await answerTo({ body: review() })).toMatchObject({ status: 200 });
  });
});
