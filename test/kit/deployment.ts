import type { KubeObject } from '../../api/core.ts';
import type { TestCluster } from './cluster.ts';
import { deployments } from './resources.ts';

/** Creates a Deployment of one pod with this spec, which has the label `app` with its name. */
export async function createDeployment(c: TestCluster, name: string, spec: object): Promise<void> {
  const labels = { app: name };
  const containers = [{ name: 'main', image: 'fake' }];
  await c.admin.create<KubeObject>(deployments, {
    metadata: { name, namespace: c.namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers, ...spec } },
    },
  } as KubeObject);
}
