import { hostname } from 'node:os';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { workerArguments } from '../scripts/tools.ts';
import type { DemoProcess, Program } from './program.ts';

/** Returns the program `npm start` with the permissions of deploy/rbac. The first `number` is 1. */
export function workerProgram({ workerKubeconfig }: Sandbox, number: number): Program {
  return { name: `worker-${number}`, args: workerArguments(), kubeconfig: workerKubeconfig };
}

/** Returns the identity of a worker in Temporal's history: PID@HOST. */
export function identityOf({ pid }: DemoProcess): string {
  return `${pid}@${hostname()}`;
}
