import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { shutdownMaintenance } from '../../../domain/shutdown/maintenance.ts';
import { type Boot, type BootedNode, decideReturn } from '../../../domain/shutdown/return.ts';

const booted: Boot = {
  node: 'node-1',
  bootId: 'boot-2',
  bootedAtMs: Date.parse('2026-01-01T10:00:00Z'),
  preparing: false,
};

const of = (bootId: string): NodeMaintenance =>
  shutdownMaintenance({ node: 'node-1', bootId, drainPlan: [] });

function node({
  bootID = 'boot-2',
  ready = 'True' as 'True' | 'False' | 'Unknown',
  lastHeartbeatTime = '2026-01-01T10:01:00Z',
  message = 'kubelet is not ready',
} = {}): BootedNode {
  const conditions = [{ type: 'Ready', status: ready, lastHeartbeatTime, message }];
  return { metadata: { name: 'node-1' }, status: { nodeInfo: { bootID }, conditions } };
}

const noNetwork = 'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady';

describe('the return of a node after a shutdown', () => {
  test.each<{
    when: string;
    maintenance?: NodeMaintenance;
    is?: BootedNode | undefined;
    boot?: Partial<Boot>;
    want: object;
  }>([
    { when: 'it is Ready in another boot', want: { kind: 'Complete', because: 'Booted' } },
    {
      when: 'it is not Ready',
      is: node({ ready: 'Unknown' }),
      want: { kind: 'AwaitNode', missing: 'the Node is not Ready' },
    },
    {
      when: 'no network plugin runs in another boot',
      is: node({ ready: 'False', message: noNetwork }),
      want: { kind: 'Complete', because: 'Booted' },
    },
    {
      when: 'no network plugin ran before the boot',
      is: node({ ready: 'False', message: noNetwork, lastHeartbeatTime: '2026-01-01T09:59:59Z' }),
      want: { kind: 'AwaitNode', missing: 'the kubelet has sent no status since this boot' },
    },
    {
      when: 'its Ready is from before the boot',
      is: node({ lastHeartbeatTime: '2026-01-01T09:59:59Z' }),
      want: { kind: 'AwaitNode', missing: 'the kubelet has sent no status since this boot' },
    },
    {
      when: 'its Ready has no time',
      is: node({ lastHeartbeatTime: '' }),
      want: { kind: 'AwaitNode', missing: 'the kubelet has sent no status since this boot' },
    },
    {
      when: 'the kubelet reports the boot that ended',
      is: node({ bootID: 'boot-1' }),
      want: { kind: 'AwaitNode', missing: 'the kubelet has not reported this boot' },
    },
    {
      when: 'there is no Node',
      is: undefined,
      want: { kind: 'AwaitNode', missing: 'the Node was not seen yet' },
    },
    { when: 'it boots to shut down again', boot: { preparing: true }, want: { kind: 'AwaitLogind' } },
    {
      when: 'logind does not answer after the boot',
      boot: { preparing: undefined },
      want: { kind: 'Complete', because: 'Booted' },
    },
    {
      when: 'the shutdown was cancelled',
      maintenance: of('boot-2'),
      is: undefined,
      want: { kind: 'Complete', because: 'Cancelled' },
    },
    {
      when: 'the shutdown is in progress',
      maintenance: of('boot-2'),
      boot: { preparing: true },
      want: { kind: 'AwaitLogind' },
    },
    {
      when: 'nobody knows whether it is in progress',
      maintenance: of('boot-2'),
      boot: { preparing: undefined },
      want: { kind: 'AwaitLogind' },
    },
    {
      when: 'the maintenance is one of a user',
      maintenance: { ...of('boot-1'), metadata: { name: 'shutdown-node-1' } },
      want: { kind: 'Nothing' },
    },
    {
      when: 'the maintenance is complete',
      maintenance: { ...of('boot-1'), spec: { ...of('boot-1').spec, stage: 'Complete' } },
      want: { kind: 'Nothing' },
    },
    {
      when: 'the maintenance is that of another node',
      maintenance: shutdownMaintenance({ node: 'node-2', bootId: 'boot-1', drainPlan: [] }),
      want: { kind: 'Nothing' },
    },
  ])('$when', ({ maintenance = of('boot-1'), boot = {}, want, ...rest }) => {
    const is = 'is' in rest ? rest.is : node();
    expect(decideReturn(maintenance, is, { ...booted, ...boot })).toEqual(want);
  });

  test('needs nothing without a maintenance', () => {
    expect(decideReturn(undefined, node(), booted)).toEqual({ kind: 'Nothing' });
  });
});
