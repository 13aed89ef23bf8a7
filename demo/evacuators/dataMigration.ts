import { setTimeout } from 'node:timers/promises';
import { type Log, runEvacuator } from '../../evacuator-kit/index.ts';
import { connectKube } from '../../kube/client.ts';
import { type ConfigMap, configMaps, ledger } from './fixtures.ts';
import { evacuatorClass, migrationMessage, newDisk, oldDisk, recordMs, records } from './migration.ts';

/** An evacuator process of the team that owns the ledger: copies the data of the ledger before its pod is evicted. */

const silent = () => undefined;
const log: Log = { debug: silent, info: silent, warn: silent, error: silent };
const kube = connectKube({ userAgent: evacuatorClass, log });
const { namespace } = ledger;

async function read(name: string): Promise<Record<string, string>> {
  const disk: ConfigMap | undefined = await kube.get(configMaps, { namespace, name });
  return disk?.data ?? {};
}

await runEvacuator({
  evacuatorClass,
  namespace,
  evacuate: async (_pod, _evacuation, progress) => {
    const source = await read(oldDisk);
    const target = await read(newDisk);
    // After a restart, some records may already be copied.
    const missing = Object.entries(source).filter(([key, value]) => target[key] !== value);
    for (const [index, [key, value]] of missing.entries()) {
      progress.report({
        message: migrationMessage(records - missing.length + index),
        expectedFinishTime: new Date(kube.now().getTime() + (missing.length - index) * recordMs),
      });
      await kube.mergePatch(configMaps, { namespace, name: newDisk }, { data: { [key]: value } });
      await setTimeout(recordMs, undefined, { signal: progress.signal });
    }
    return migrationMessage(records);
  },
});
await kube.close();
