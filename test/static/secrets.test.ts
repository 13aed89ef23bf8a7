import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';

interface Container {
  name: string;
  env?: { name: string; valueFrom?: object }[];
  envFrom?: object[];
  volumeMounts: { name: string; mountPath: string }[];
}

interface Volume {
  name: string;
  projected?: { sources: { secret: { name: string } }[] };
}

interface Deployment {
  spec: { template: { spec: { containers: [Container]; volumes: Volume[] } } };
}

function podOf(folder: string) {
  const file = new URL(`../../deploy/${folder}/deployment.yaml`, import.meta.url);
  return (parse(readFileSync(file, 'utf8')) as Deployment).spec.template.spec;
}

// A variable keeps a key that was replaced, and the names of keys that are files, such as api-key, are no names of variables.
test.each(['worker', 'admission-server'])('no Secret is in the environment of deploy/%s', (folder) => {
  const [{ env = [], envFrom = [] }] = podOf(folder).containers;
  const sources = [...envFrom, ...env.map(({ valueFrom }) => valueFrom ?? {})].flatMap(Object.keys);
  expect(sources.filter((source) => source.startsWith('secret'))).toEqual([]);
});

test('the API key is the file that the documentation names', () => {
  const { containers, volumes } = podOf('worker');
  const volume = volumes.find(({ projected }) =>
    projected?.sources.some(({ secret }) => secret.name === 'node-maintenance-temporal'),
  );
  const mount = containers[0].volumeMounts.find(({ name }) => name === volume?.name);
  const readme = readFileSync(new URL('../../temporal-config/README.md', import.meta.url), 'utf8');
  expect(readme).toContain('secret generic node-maintenance-temporal --from-literal=api-key=');
  expect(readme).toContain(`TEMPORAL_API_KEY_FILE=${mount?.mountPath}/api-key`);
});
