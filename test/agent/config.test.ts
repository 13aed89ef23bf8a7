import { describe, expect, test } from '@jest/globals';
import { parseAgentConfig } from '../../agent/config.ts';

test('the hold directory is beside the static pod path', () => {
  const { staticPods, node, health } = parseAgentConfig(['--static-pod-path', '/srv/manifests/'], {
    NODE_NAME: 'n1',
  });
  expect({ staticPods, node, health }).toEqual({
    node: 'n1',
    health: undefined,
    staticPods: {
      staticPodPath: '/srv/manifests',
      holdDirectory: '/srv/held-manifests',
      controlPlaneReturnAfterSeconds: 600,
      podLogDirectory: '/var/log/pods',
    },
  });
});

test.each([
  { argv: ['--prefer-node-maintenance-during-graceful-shutdown', 'false'], env: {} },
  { argv: [], env: { PREFER_NODE_MAINTENANCE_DURING_GRACEFUL_SHUTDOWN: 'false' } },
])('shutdowns are not delayed with $argv and $env', ({ argv, env }) => {
  expect(parseAgentConfig(['--node', 'n1'], {}).shutdown).toBeDefined();
  expect(parseAgentConfig(['--node', 'n1', ...argv], env).shutdown).toBeUndefined();
});

describe('invalid settings name flag, variable and remedy', () => {
  test.each([
    {
      args: ['--static-pod-path', '/m', '--hold-directory', '/m/held'],
      want: '--hold-directory (HOLD_DIRECTORY): expected a folder outside the static pod path, which the kubelet reads (got "/m/held")',
    },
    {
      args: ['--static-pod-path', 'm'],
      want: '--static-pod-path (STATIC_POD_PATH): expected an absolute path (got "m")',
    },
    {
      args: ['--control-plane-return-after', '0'],
      want: '--control-plane-return-after (CONTROL_PLANE_RETURN_AFTER): expected whole seconds, 1 to 86400 (got "0")',
    },
    {
      args: ['--node', 'n'.repeat(64)],
      want: `--node (NODE_NAME): expected at most 63 characters: a node with a longer name cannot have an agent, because Evacuations carry its name as a label (got "${'n'.repeat(64)}")`,
    },
    {
      args: ['--health-bind-address', 'localhost'],
      want: '--health-bind-address (HEALTH_BIND_ADDRESS): expected an IP address of this host, such as 127.0.0.1 (got "localhost")',
    },
  ])('$args', ({ args, want }) => {
    expect(() => parseAgentConfig(['--node', 'n1', ...args], {})).toThrow(want);
  });
});
