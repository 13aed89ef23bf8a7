import { arch, availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { pinnedVersion } from '../sandbox/binaries.ts';

/** The machine of a measurement, and the versions of what ran on it. */
export interface Machine {
  cpus: number;
  cpu: string;
  memoryGb: number;
  system: string;
  node: string;
  kubernetes: string;
  etcd: string;
  temporal: string;
}

export function machineOf(): Machine {
  return {
    cpus: availableParallelism(),
    cpu: cpus()[0]?.model ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${arch()}`,
    node: process.version,
    kubernetes: pinnedVersion('kube-apiserver'),
    etcd: pinnedVersion('etcd'),
    temporal: pinnedVersion('temporal'),
  };
}
