import { hostname } from 'node:os';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { workerArguments } from '../scripts/tools.ts';
import type { DemoProcess, Program } from './program.ts';

/** `npm start`, with the permissions of deploy/worker-rbac.yaml. `number` is counted from 1. */
export function workerProgram({ workerKubeconfig }: Sandbox, number: number): Program {
  return { name: `worker-${number}`, args: workerArguments(), kubeconfig: workerKubeconfig };
}

/** How Temporal's history names a worker: PID@HOST. */
export function identityOf({ pid }: DemoProcess): string {
  return `${pid}@${hostname()}`;
}
