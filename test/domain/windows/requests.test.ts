import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { MAX_APPROVED_NODES, WindowRequestAnnotation } from '../../../api/names.ts';
import { recordedRequests } from '../../../domain/windows/openWindow.ts';
import {
  decideAnnotatedRequests,
  hasRequestAnnotation,
  isRequestRecorded,
  requestAnnotationValue,
  requestsUnknownTo,
  withRequest,
} from '../../../domain/windows/requests.ts';
import { isWindowStep } from '../../../domain/windows/windowState.ts';

const { Approve, Resume, Cancel } = WindowRequestAnnotation;
const runId = '7d3c6c5e-8f2b-4a6e-9a53-1f0f6a1c2b3d';
const end = '2026-01-01T06:00:00.000Z';

type Requests = Parameters<typeof withRequest>[1];

interface Differs {
  approval?: MaintenanceWindow['spec']['approval'];
  requests?: Requests;
  isOpen?: boolean;
}

function windowWith(
  annotations: Record<string, string> | undefined,
  { approval = 'PerNode', requests, isOpen = true }: Differs = {},
): MaintenanceWindow {
  const active = { workflowId: 'w', runId, start: end, end, nodes: [], ...(requests && { requests }) };
  return {
    metadata: { name: 'os', ...(annotations && { annotations }) },
    spec: { approval },
    status: { conditions: [], observedGeneration: 1, ...(isOpen && { active }) },
  } as unknown as MaintenanceWindow;
}

const isSelected = (node: string) => node.startsWith('n');
const decided = (annotations: Record<string, string>, differs: Differs = {}) =>
  decideAnnotatedRequests(windowWith(annotations, differs), isSelected);

describe('a request by annotation', () => {
  test('does not resume a window that another annotation pauses', () => {
    const annotations = { [Resume]: runId, 'nodemaintenance.k8s.io/paused': 'disk' };
    const { requests, problems } = decided(annotations);
    expect({ requests, problems }).toEqual({
      requests: undefined,
      problems: [
        `metadata.annotations[${Resume}]: the window is paused by its annotation nodemaintenance.k8s.io/paused: run kubectl maintenance window resume os`,
      ],
    });
  });

  test.each<{ of: string; annotations: Record<string, string>; requests: object }>([
    { of: 'approves the window', annotations: { [Approve]: runId }, requests: { approved: true } },
    {
      of: 'approves nodes',
      annotations: { [Approve]: `${runId}:n2,n1` },
      requests: { approvedNodes: ['n2', 'n1'] },
    },
    { of: 'resumes it', annotations: { [Resume]: runId }, requests: { paused: false } },
    { of: 'cancels it', annotations: { [Cancel]: runId }, requests: { cancelled: true } },
    {
      of: 'approves and cancels it at once',
      annotations: { [Approve]: runId, [Cancel]: runId },
      requests: { approved: true, cancelled: true },
    },
  ])('$of', ({ annotations, requests }) => {
    const decision = decided(annotations);
    expect(decision).toMatchObject({ requests, problems: [] });
    expect(new Set(decision.annotations)).toEqual(new Set(Object.keys(annotations)));
  });

  test.each<{ when: string; annotations: Record<string, string>; differs?: Differs; problem: string }>([
    {
      when: 'the window is closed',
      annotations: { [Cancel]: runId },
      differs: { isOpen: false },
      problem: `metadata.annotations[${Cancel}]: the window is not open, or not any more (got run id "${runId}")`,
    },
    {
      when: 'it names another opening',
      annotations: { [Resume]: 'late' },
      problem: `metadata.annotations[${Resume}]: expected the run id of the opening, .status.active.runId, which is ${runId} (got "late")`,
    },
    { when: 'it is empty', annotations: { [Approve]: '' }, problem: 'expected the run id of the opening' },
    {
      when: 'a cancellation names nodes',
      annotations: { [Cancel]: `${runId}:n1` },
      problem: 'expected the run id of the opening',
    },
    {
      when: 'a node is not selected',
      annotations: { [Approve]: `${runId}:n1,other` },
      problem: 'the window does not select "other": name only nodes that it selects',
    },
    {
      when: 'a name is empty',
      annotations: { [Approve]: `${runId}:` },
      problem: 'the window does not select "": name only nodes that it selects',
    },
    {
      when: 'the window requires no approval',
      annotations: { [Approve]: runId },
      differs: { approval: 'None' },
      problem: 'the window requires no approval: spec.approval is None',
    },
    {
      when: 'nodes are named and the window is approved as a whole',
      annotations: { [Approve]: `${runId}:n1` },
      differs: { approval: 'PerWindow' },
      problem: 'can be approved only as a whole, because spec.approval is PerWindow: name no node',
    },
    {
      when: 'the status would become too large',
      annotations: { [Approve]: `${runId}:n` },
      differs: {
        requests: { approvedNodes: Array.from({ length: MAX_APPROVED_NODES }, (_, index) => `n${index}`) },
      },
      problem: `more than ${MAX_APPROVED_NODES} nodes would be approved by name: approve the whole window`,
    },
  ])('is rejected when $when', ({ annotations, differs, problem }) => {
    const decision = decided(annotations, differs);
    expect(decision.problems).toEqual([expect.stringContaining(problem)]);
    expect(decision.requests).toBeUndefined();
    expect(decision.annotations).toEqual(Object.keys(annotations));
  });

  test('that is rejected does not hold up another one', () => {
    expect(decided({ [Approve]: 'late', [Cancel]: runId })).toMatchObject({
      requests: { cancelled: true },
      problems: [expect.stringContaining(Approve)],
    });
  });

  test('leaves other annotations alone', () => {
    const annotations = {
      'nodemaintenance.k8s.io/paused': 'disk',
      'nodemaintenance.k8s.io/pause': runId,
      approve: runId,
    };
    expect(hasRequestAnnotation(windowWith(annotations))).toBe(false);
    expect(hasRequestAnnotation(windowWith(undefined))).toBe(false);
    expect(decided(annotations)).toEqual({ annotations: [], problems: [] });
  });
});

const node = fc.stringMatching(/^n[a-z0-9]{1,3}$/);
const nodes = fc.uniqueArray(node, { maxLength: 5 });
const requests: fc.Arbitrary<Requests> = fc.record(
  { approved: fc.boolean(), paused: fc.boolean(), cancelled: fc.boolean(), approvedNodes: nodes },
  { requiredKeys: [] },
);
const key = fc.constantFrom(...Object.values(WindowRequestAnnotation));
const openingOf = (of: Requests) => ({
  ...(windowWith({}, { requests: of }).status?.active ?? {
    workflowId: '',
    runId,
    start: end,
    end,
    nodes: [],
  }),
});
const approvedNodesOf = (of: Requests) => new Set(of.approvedNodes ?? []);

describe('recorded requests', () => {
  test('do not change when a request is recorded twice', () => {
    fc.assert(
      fc.property(requests, requests, (recorded, one) => {
        const once = withRequest(recorded, one);
        expect(withRequest(once, one)).toEqual(once);
      }),
    );
  });

  test('lose no approved node, and no flag that the request does not set', () => {
    fc.assert(
      fc.property(requests, requests, (recorded, one) => {
        const { approvedNodes: _nodes, ...flags } = withRequest(recorded, one);
        const { approvedNodes: _before, ...before } = recorded;
        const { approvedNodes: _named, ...set } = one;
        expect(flags).toEqual({ ...before, ...set });
        expect(approvedNodesOf(withRequest(recorded, one))).toEqual(
          new Set([...approvedNodesOf(recorded), ...approvedNodesOf(one)]),
        );
      }),
    );
  });

  test('approve the same nodes in whatever order they are approved', () => {
    fc.assert(
      fc.property(requests, nodes, nodes, (recorded, first, second) => {
        const both = (...order: string[][]) =>
          order.reduce<Requests>((all, approvedNodes) => withRequest(all, { approvedNodes }), recorded);
        expect(approvedNodesOf(both(first, second))).toEqual(approvedNodesOf(both(second, first)));
      }),
    );
  });

  test('contain a request by annotation once it is accepted, and are then as before for the same one', () => {
    fc.assert(
      fc.property(requests, key, nodes, (recorded, annotation, named) => {
        const isOfNodes = annotation === Approve && named.length > 0;
        const value = requestAnnotationValue(runId, isOfNodes ? named : []);
        const decision = decided({ [annotation]: value }, { requests: recorded });
        expect(decision.problems).toEqual([]);
        const opening = openingOf(decision.requests ?? {});
        expect(isRequestRecorded(opening, annotation, isOfNodes ? named : [])).toBe(true);
        const again = decided({ [annotation]: value }, { requests: decision.requests ?? {} });
        expect(again.requests).toEqual(decision.requests);
      }),
    );
  });

  test('are decided without a failure for any annotation', () => {
    const values = fc.dictionary(key, fc.oneof(fc.string(), fc.constant(runId), fc.constant(`${runId}:n1`)));
    fc.assert(
      fc.property(values, fc.boolean(), requests, (annotations, isOpen, of) => {
        const decision = decided(annotations, { isOpen, requests: of });
        expect(decision.annotations).toHaveLength(Object.keys(annotations).length);
        expect(decision.problems.length).toBeLessThanOrEqual(decision.annotations.length);
        if (!isOpen) expect(decision.requests).toBeUndefined();
      }),
    );
  });
});

test('an opening that nobody has asked for anything is not approved, not paused and not cancelled', () => {
  for (const opening of [{}, openingOf({})]) {
    expect(isRequestRecorded(opening, Approve)).toBe(false);
    expect(isRequestRecorded(opening, Approve, ['n1'])).toBe(false);
    expect(isRequestRecorded(opening, Resume)).toBe(true);
    expect(isRequestRecorded(opening, Cancel)).toBe(false);
  }
});

describe('the requests that a workflow knows', () => {
  test('are those of the object, once it has taken them over', () => {
    fc.assert(
      fc.property(requests, requests, (known, of) => {
        const recorded = recordedRequests(openingOf(of));
        const unknown = requestsUnknownTo(recordedRequests(openingOf(known)), recorded);
        const { end: _end, ...newest } = recorded;
        expect({ ...recordedRequests(openingOf(known)), ...unknown }).toMatchObject(newest);
        expect(requestsUnknownTo({ ...recordedRequests(openingOf(known)), ...unknown }, recorded)).toBe(
          undefined,
        );
      }),
    );
  });

  test('may be anything: they are then unknown', () => {
    fc.assert(
      fc.property(fc.anything(), (known) => {
        const recorded = recordedRequests(openingOf({ paused: true }));
        expect(requestsUnknownTo(known, recorded)).toMatchObject({ paused: true, approvedNodes: [] });
      }),
    );
  });

  test.each([
    { requests: { approved: true, approvedNodes: ['n1'], paused: false, cancelled: false }, is: true },
    { requests: { approved: 'yes', approvedNodes: [], paused: false, cancelled: false }, is: false },
    { requests: { approved: true, approvedNodes: [1], paused: false, cancelled: false }, is: false },
    { requests: { approved: true }, is: false },
    { requests: null, is: false },
  ])('are taken over only in their form: $requests', ({ requests: of, is }) => {
    const state = {
      revision: 'r',
      nodes: 1,
      done: 0,
      remaining: 1,
      inProgress: [],
      failed: [],
      requests: of,
    };
    expect(isWindowStep({ kind: 'Progressed', state })).toBe(is);
  });
});
