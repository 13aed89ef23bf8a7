import fc from 'fast-check';
import type { DrainPlanEntry, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareEntries, completeDrainPlan, entryKey } from '../../domain/drain/plan.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { silentLog } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { entry, maintenance } from './objects.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;
let admin: Kube;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  admin = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'node-maintenance-test', log: silentLog });
});

afterAll(async () => {
  await admin?.close();
  await releaseSandbox(sandbox);
});

type Plan = DrainPlanEntry[] | undefined;

/** Returns what the apiserver would store of each plan. */
async function stored(plans: readonly Plan[]): Promise<DrainPlanEntry[][]> {
  const objects = plans.map(
    (drainPlan, i) => maintenance(`api-policy-${i}`, { drainPlan }) as NodeMaintenance,
  );
  const created = await Promise.all(
    objects.map((object) => admin.create(resources.nodeMaintenances, object, { dryRun: true })),
  );
  return created.map(({ spec }) => spec.drainPlan ?? []);
}

const postgres = { matchLabels: { app: 'postgres' } };
const max = 2_147_483_647;

const anyEntry = fc
  .record({
    podType: fc.constantFrom('Default', 'DaemonSet', 'Static'),
    podPriority: fc.oneof(
      fc.integer({ min: -max - 1, max }),
      fc.constantFrom(
        -max - 1,
        0,
        999_999_999,
        1_000_000_000,
        1_000_000_001,
        2_000_000_000,
        2_000_001_000,
        max,
      ),
    ),
    podSelector: fc.constantFrom(
      undefined,
      undefined,
      postgres,
      {},
      { matchExpressions: [{ key: 'app', operator: 'Exists' }] },
    ),
  })
  .map(({ podType, podPriority, podSelector }) => entry(podType, podPriority, podSelector));

const anySoundPlan = fc
  .array(anyEntry, { maxLength: 30 })
  .map((entries) => [...new Map(entries.map((one) => [entryKey(one), one])).values()])
  .map((entries) => entries.toSorted(compareEntries));

describe('the apiserver completes a drain plan as the domain does, without a worker:', () => {
  test.each<{ when: string; plan: Plan }>([
    { when: 'there is none', plan: undefined },
    { when: 'it is empty', plan: [] },
    {
      when: 'it ends below the first injected entry',
      plan: [entry('Default', 5000), entry('DaemonSet', 3000)],
    },
    {
      when: 'a concrete selector has the priority of an injected entry',
      plan: [entry('Default', 1_000_000_000, postgres)],
    },
    {
      when: 'an entry with an empty selector has it: it does not count as injected',
      plan: [entry('Static', max, {})],
    },
    {
      when: 'it has some of the injected entries, between its own',
      plan: [
        entry('Default', -5),
        entry('Default', 1_000_000_000, postgres),
        entry('Default', 1_000_000_000),
        entry('Default', 1_500_000_000),
        entry('Static', max),
      ],
    },
    { when: 'it is complete', plan: completeDrainPlan([entry('DaemonSet', 7)]) },
    {
      when: 'it has 256 entries',
      plan: Array.from({ length: 256 }, (_, i) => entry('Default', i, postgres)),
    },
  ])('$when', async ({ plan }) => {
    expect(await stored([plan])).toEqual([completeDrainPlan(plan)]);
  });

  // Most plans have several of the priorities that the policy compares, so that a wrong comparison shows in one of a few plans.
  test('any valid plan, idempotently', async () => {
    const anyPlans = fc.array(anySoundPlan, { minLength: 60, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(anyPlans, async (plans) => {
        const complete = await stored(plans);
        expect(complete).toEqual(plans.map((plan) => completeDrainPlan(plan)));
        const again = complete.slice(0, 20);
        expect(await stored(again)).toEqual(again);
      }),
      { numRuns: 1, endOnFailure: true },
    );
  });
});

describe('an invalid plan is rejected by the rules of the CRD:', () => {
  test.each([
    {
      when: 'two pod types in the wrong order',
      drainPlan: [entry('DaemonSet', 1), entry('Default', 1)],
      want: 'drainPlan must list podType Default first',
    },
    {
      when: 'priorities in the wrong order, with an injected one between them',
      drainPlan: [entry('Default', 1_500_000_000), entry('Default', 1000)],
      want: 'drainPlan must list the entries of podType Default in ascending order',
    },
    {
      when: 'an entry twice',
      drainPlan: [entry('Default', 1000), entry('Default', 1000)],
      want: 'drainPlan must not repeat an entry',
    },
    { when: 'an entry without a podType', drainPlan: [{ podPriority: 1 }], want: 'podType: Required value' },
    { when: 'a string as plan', drainPlan: 'everything', want: 'must be of type array' },
  ])('$when', async ({ drainPlan, want }) => {
    const object = maintenance('api-policy', { drainPlan });
    const { code, stderr } = await kubectl(
      ['create', '--dry-run=server', '--validate=false', '-f', '-'],
      object,
    );
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(want) });
  });
});

describe('the manifest of a maintenance, with the plan of the user, can be applied again', () => {
  const short = maintenance('api-policy-applied', { drainPlan: [entry('Default', 1000)] });
  afterEach(() => succeeds(kubectl(['delete', 'nm', 'api-policy-applied'])));

  test.each([
    { by: 'kubectl apply', flags: [] },
    { by: 'kubectl apply --server-side', flags: ['--server-side'] },
  ])('by $by', async ({ flags }) => {
    for (const _ of ['first', 'again']) await succeeds(kubectl(['apply', ...flags, '-f', '-'], short));
    const now = JSON.parse(await succeeds(kubectl(['get', 'nm', 'api-policy-applied', '-o', 'json'])));
    expect(now.spec.drainPlan).toEqual(completeDrainPlan([entry('Default', 1000)]));
    expect(now.metadata.generation).toBe(1);
  });

  test('with another stage', async () => {
    await succeeds(kubectl(['apply', '-f', '-'], short));
    const changed = { ...short, spec: { ...(short as { spec: object }).spec, stage: 'Complete' } };
    expect(await kubectl(['apply', '-f', '-'], changed)).toMatchObject({ code: 0 });
  });

  test('but not with another plan', async () => {
    await succeeds(kubectl(['apply', '-f', '-'], short));
    const other = maintenance('api-policy-applied', { drainPlan: [entry('Default', 999)] });
    const { code, stderr } = await kubectl(['apply', '-f', '-'], other);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('drainPlan is immutable') });
  });
});
