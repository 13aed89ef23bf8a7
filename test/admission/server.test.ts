import { request, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { maintenanceWebhook, type ReviewResult } from '../../admission/review.ts';
import { createAdmissionServer } from '../../admission/server.ts';
import { silentLog } from '../kit/cluster.ts';
import { servingCertificate } from '../kit/servingCertificate.ts';

const answering = (result: ReviewResult) => maintenanceWebhook(() => Promise.resolve(result));

let server: Server;
let ca: string;

beforeAll(async () => {
  const { authority, serving } = await servingCertificate();
  ca = authority.certificate;
  server = createAdmissionServer(
    {
      '/allow': answering({ kind: 'Allowed', warnings: ['mind the gap'] }),
      '/deny': answering({ kind: 'Denied', reason: 'Forbidden', message: 'no' }),
      '/fail': maintenanceWebhook(() => Promise.reject(new Error('the apiserver is away'))),
    },
    { log: silentLog, onRejection: () => undefined },
  );
  server.setSecureContext({ cert: serving.certificate, key: serving.key });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterAll(() => {
  server.close();
});

interface TestRequest {
  path?: string;
  method?: string;
  type?: string;
  body?: string;
}

function answerTo({ path = '/allow', method = 'POST', type = 'application/json', body = '' }: TestRequest) {
  const { port } = server.address() as AddressInfo;
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        ca,
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
const createRequest = {
  uid: 'u',
  operation: 'CREATE',
  userInfo: { username: 'jane' },
  object,
  oldObject: null,
};
const review = (differs: object = {}) =>
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { ...createRequest, ...differs },
  });

describe('the admission server answers', () => {
  test('a review with the result, its warnings, and the UID of the request', async () => {
    const { status, body } = await answerTo({ body: review() });
    expect({ status, ...JSON.parse(body) }).toEqual({
      status: 200,
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u', allowed: true, warnings: ['mind the gap'] },
    });
  });

  test('a review with the reason of a denial', async () => {
    const { body } = await answerTo({ path: '/deny', body: review() });
    expect(JSON.parse(body).response).toEqual({
      uid: 'u',
      allowed: false,
      status: { code: 403, reason: 'Forbidden', message: 'no' },
    });
  });

  test.each<TestRequest & { when: string; status: number; message: string }>([
    { when: 'a path that is not served', path: '/', status: 404, message: 'not found' },
    { when: 'a property name of Object', path: '/constructor', status: 404, message: 'not found' },
    { when: 'a GET', method: 'GET', status: 405, message: 'expected POST' },
    { when: 'a form', type: 'text/plain', status: 415, message: 'expected content-type application/json' },
    { when: 'an empty body', status: 400, message: 'expected an AdmissionReview in JSON' },
    { when: 'half an object', body: '{"kind":', status: 400, message: 'expected an AdmissionReview in JSON' },
    { when: 'another object', body: '{"kind":"Pod"}', status: 400, message: 'AdmissionReview: apiVersion: ' },
    {
      when: 'arrays in arrays',
      body: `${'['.repeat(2_000)}${']'.repeat(2_000)}`,
      status: 400,
      message: 'expected an AdmissionReview in JSON of at most 1000 levels',
    },
    { when: 'null', body: 'null', status: 400, message: 'AdmissionReview: ' },
    {
      when: 'no user',
      body: review({ userInfo: null }),
      status: 400,
      message: 'AdmissionReview: request.userInfo: ',
    },
    {
      when: 'an unknown operation',
      body: review({ operation: 'PAINT' }),
      status: 400,
      message: 'AdmissionReview: request.operation: ',
    },
    {
      when: 'a maintenance without a selector',
      body: review({ object: { metadata: {}, spec: { stage: 'Idle' } } }),
      status: 400,
      message: 'AdmissionReview: request.object.spec.nodeSelector: ',
    },
    {
      when: 'a deletion without an object',
      body: review({ operation: 'DELETE' }),
      status: 400,
      message: 'AdmissionReview: request.oldObject: ',
    },
    {
      when: 'a review whose reviewer fails',
      path: '/fail',
      body: review(),
      status: 500,
      message: 'the apiserver is away',
    },
  ])('$when with $status', async ({ status, message, ...sent }) => {
    expect(await answerTo(sent)).toEqual({ status, body: expect.stringContaining(message) });
    expect(await answerTo({ body: review() })).toMatchObject({ status: 200 });
  });

  test('a body that is too large with 413, and continues to run', async () => {
    const body = 'x'.repeat(9 * 1024 * 1024);
    expect(await answerTo({ body })).toMatchObject({ status: 413 });
    expect(await answerTo({ body: review() })).toMatchObject({ status: 200 });
  });
});
