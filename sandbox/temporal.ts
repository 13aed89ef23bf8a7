import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { defaultNamespace, tunedArguments } from '../temporal-config/devServer.ts';
import { declaredNamespace } from '../temporal-config/namespace.ts';
import type { Layout, ServerCommand } from './layout.ts';
import { type Addresses, loopback } from './ports.ts';

/** Returns Temporal's development server with its database in a file, so that it can be killed and started again. */
export function temporalServer(layout: Layout, { ports }: Addresses, temporal: string): ServerCommand {
  return {
    command: temporal,
    port: ports.temporal,
    args: [
      'server',
      'start-dev',
      // Its parts connect to each other at 127.0.0.1, so that it works at no other address.
      `--ip=${loopback}`,
      `--port=${ports.temporal}`,
      `--ui-port=${ports.temporalUi}`,
      `--metrics-port=${ports.temporalMetrics}`,
      `--namespace=${defaultNamespace}`,
      `--db-filename=${layout.temporalDatabase}`,
      '--log-format=json',
      ...tunedArguments(),
    ],
  };
}

/** Returns what lets pods of real nodes connect to Temporal, at the same port. */
export function temporalForwarder({ host, ports }: Addresses): ServerCommand {
  const { temporal: port } = ports;
  return {
    command: 'socat',
    port,
    args: [`TCP-LISTEN:${port},bind=${host},reuseaddr,fork`, `TCP:${loopback}:${port}`],
  };
}

/**
 * A probe for `until`: returns undefined when the server serves the namespace and has the search attributes. It registers them
 * each time, because `--search-attribute` of start-dev does nothing on an existing database.
 */
export async function temporalReadiness(
  layout: Layout,
  { ports }: Addresses,
  temporal: string,
): Promise<string | undefined> {
  // The command pairs names and types by position.
  const pairs = Object.entries(declaredNamespace().searchAttributes).flatMap(([name, type]) => [
    `--name=${name}`,
    `--type=${type}`,
  ]);
  const server = [
    `--address=${loopback}:${ports.temporal}`,
    `--namespace=${defaultNamespace}`,
    '--command-timeout=5s',
  ];
  const args = ['operator', 'search-attribute', 'create', ...pairs, ...server];
  try {
    // Without the user's environment: its TEMPORAL_ variables and profiles are about another server.
    await promisify(execFile)(temporal, args, { env: { HOME: layout.dir } });
    return undefined;
  } catch (error) {
    return String((error as { stderr?: string }).stderr ?? error).trim();
  }
}
