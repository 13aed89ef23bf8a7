import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { AUTOSCALER_ANNOTATIONS, FIELD_MANAGER } from '../../../api/names.ts';
import {
  autoscalerAnnotationsBefore,
  autoscalerAnnotationsOf,
  autoscalerAnnotationsToRemove,
  missingAutoscalerAnnotations,
} from '../../../domain/common/autoscalers.ts';

type Annotations = Record<string, string>;

const nodeWith = (annotations: Annotations) => ({ metadata: { name: 'n', annotations } });

/** Annotations of a node: some of the autoscalers, with any value, and another one. */
const annotationsOfUsers = fc
  .record(
    Object.fromEntries(AUTOSCALER_ANNOTATIONS.map((key) => [key, fc.constantFrom('true', 'false', '30m')])),
    { requiredKeys: [] },
  )
  .map((own): Annotations => ({ 'example.com/rack': '7', ...(own as Annotations) }));

/** Applies to one node what a process does: maintenances join, keep and leave it. */
class World {
  annotations: Annotations;
  /** The records of the maintenances that hold the node. */
  readonly held = new Map<number, { unschedulableBefore: boolean; autoscalerAnnotationsBefore?: string[] }>();

  constructor(annotations: Annotations) {
    this.annotations = { ...annotations };
  }

  joined(id: number, enabled: boolean): void {
    const holders = [...this.held.values()];
    const before = autoscalerAnnotationsBefore(nodeWith(this.annotations), this.held.get(id), {
      holders,
      enabled,
    });
    if (!this.held.has(id))
      this.held.set(id, {
        unschedulableBefore: false,
        ...(before && { autoscalerAnnotationsBefore: before }),
      });
    const missing = missingAutoscalerAnnotations(nodeWith(this.annotations), this.held.get(id));
    this.annotations = { ...this.annotations, ...missing };
  }

  left(id: number): void {
    const record = this.held.get(id);
    this.held.delete(id);
    if (this.held.size > 0) return;
    for (const key of autoscalerAnnotationsToRemove(nodeWith(this.annotations), record))
      delete this.annotations[key];
  }
}

const ids = fc.integer({ min: 1, max: 3 });
const steps = fc.array(fc.record({ id: ids, joins: fc.boolean() }), { maxLength: 12 });

describe('the annotations against autoscalers', () => {
  test('are all there while a maintenance holds the node, and leave it as it was, however maintenances overlap', () => {
    fc.assert(
      fc.property(annotationsOfUsers, steps, (before, taken) => {
        const world = new World(before);
        for (const { id, joins } of taken) {
          if (joins) world.joined(id, true);
          else if (world.held.has(id)) world.left(id);
          expect(world.annotations).toMatchObject(before);
          if (world.held.size > 0)
            expect(autoscalerAnnotationsOf(nodeWith(world.annotations))).toEqual(
              [...AUTOSCALER_ANNOTATIONS].toSorted(),
            );
          else expect(world.annotations).toEqual(before);
        }
      }),
    );
  });

  test('are those of maintenances without a record if the apiserver knows so', () => {
    const [first = '', second = ''] = AUTOSCALER_ANNOTATIONS;
    const setBy = (manager: string, key: string) => ({
      manager,
      fieldsV1: { 'f:metadata': { 'f:annotations': { [`f:${key}`]: {} } } },
    });
    const managedFields = [setBy(FIELD_MANAGER, first), setBy('kubectl-annotate', second)];
    const node = {
      metadata: { name: 'n', annotations: { [first]: 'true', [second]: 'true' }, managedFields },
    };
    const alone = { holders: [], enabled: true };
    expect(autoscalerAnnotationsBefore(node, undefined, alone)).toEqual([second]);
    // Someone has changed the value since.
    const changed = { metadata: { ...node.metadata, annotations: { [first]: 'false' } } };
    expect(autoscalerAnnotationsBefore(changed, undefined, alone)).toEqual([first]);
  });

  test('are not set if they are turned off, nor by a maintenance that joins one that set none', () => {
    fc.assert(
      fc.property(annotationsOfUsers, fc.array(fc.boolean(), { maxLength: 3 }), (before, others) => {
        const world = new World(before);
        world.joined(0, false);
        for (const [index, enabled] of others.entries()) world.joined(index + 1, enabled);
        expect(world.annotations).toEqual(before);
        for (const id of world.held.keys()) world.left(id);
        expect(world.annotations).toEqual(before);
      }),
    );
  });

  test('stay with the value that another client gives them during the maintenance', () => {
    const world = new World({});
    world.joined(1, true);
    world.annotations['karpenter.sh/do-not-disrupt'] = '30m';
    world.joined(1, true);
    world.left(1);
    expect(world.annotations).toEqual({ 'karpenter.sh/do-not-disrupt': '30m' });
  });

  test('are set again if another client removes them during the maintenance', () => {
    const world = new World({});
    world.joined(1, true);
    delete world.annotations['karpenter.sh/do-not-disrupt'];
    world.joined(1, true);
    expect(world.annotations).toHaveProperty(['karpenter.sh/do-not-disrupt'], 'true');
  });
});
