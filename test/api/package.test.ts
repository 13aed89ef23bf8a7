import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import { NODE_MAINTENANCE } from '../../api/names.ts';
import { type Project, projectWith, typeErrors } from '../kit/package.ts';

// Installs the package of the API in an empty project, and compiles programs against its types.

let dir: string;
let project: Project;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-api-package-'));
  project = await projectWith(dir, 'api');
});
afterAll(() => rm(dir, { recursive: true, force: true }));

async function compiled(program: string): Promise<string> {
  await writeFile(join(project.dir, 'program.ts'), program);
  return typeErrors(project.dir, 'program.ts');
}

test('it is installed alone', () => {
  expect(project.installed).toBe(1);
});

test('a program has the constants and the types', async () => {
  const program = `
import { EVACUATION, NODE_MAINTENANCE, type Evacuation, type NodeMaintenance } from '@node-maintenance/api';
import schema from '@node-maintenance/api/schemas/nodemaintenance.k8s.io/nodemaintenance_v1alpha1.json' with { type: 'json' };
const maintenance: NodeMaintenance = {
  apiVersion: NODE_MAINTENANCE.apiVersion,
  kind: NODE_MAINTENANCE.kind,
  metadata: { name: 'rack-7' },
  spec: { nodeSelector: { nodeSelectorTerms: [] }, stage: 'Drain' },
};
export const active = ({ status }: Evacuation): string | undefined => status?.activeEvacuatorClass;
export const all: string[] = [maintenance.metadata.name, EVACUATION.plural, schema.properties.kind.const];
`;
  expect(
    await compiled(
      `${program}declare const console: { log(...all: unknown[]): void };\nconsole.log(all.join());`,
    ),
  ).toBe('');
  const { stdout } = await promisify(execFile)(process.execPath, ['program.ts'], { cwd: project.dir });
  expect(stdout).toBe('rack-7,evacuations,NodeMaintenance\n');
});

test('an object that the schema does not allow is a type error', async () => {
  const program = `
import type { NodeMaintenance } from '@node-maintenance/api';
export const wrong: NodeMaintenance = { metadata: { name: 'a' }, spec: { stage: 'Drained' } };
`;
  expect(await compiled(program)).toContain(`'"Drained"' is not assignable`);
});

describe('the JSON schemas', () => {
  const schemaAt = async (path: string) => {
    const file = join(project.dir, 'node_modules', '@node-maintenance', 'api', 'dist', 'schemas', path);
    return z.fromJSONSchema(JSON.parse(await readFile(file, 'utf8')) as z.core.JSONSchema.JSONSchema);
  };
  const maintenance = (spec: object) => ({
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name: 'rack-7' },
    spec: { nodeSelector: { nodeSelectorTerms: [{}] }, ...spec },
  });

  test.each([
    { when: 'an object', object: maintenance({ stage: 'Drain' }), isValid: true },
    { when: 'an unknown stage', object: maintenance({ stage: 'Drained' }), isValid: false },
    { when: 'an unknown field', object: maintenance({ stgae: 'Drain' }), isValid: false },
    { when: 'another kind', object: { ...maintenance({}), kind: 'Node' }, isValid: false },
  ])('say of $when: $isValid', async ({ object, isValid }) => {
    const schema = await schemaAt('nodemaintenance.k8s.io/nodemaintenance_v1alpha1.json');
    expect(schema.safeParse(object).success).toBe(isValid);
  });

  test.each([
    'evacuation.coordination.k8s.io/evacuation_v1alpha1.json',
    'nodemaintenance.k8s.io/maintenancewindow_v1alpha1.json',
    'nodemaintenance.k8s.io/nodedisruptionbudget_v1alpha1.json',
    'nodemaintenance.k8s.io/nodereadiness_v1alpha1.json',
    'nodemaintenance.k8s.io/nodereadinesspolicy_v1alpha1.json',
  ])('contain %s', async (path) => {
    expect((await schemaAt(path)).safeParse({}).success).toBe(false);
  });
});

// The published types are written from the CRDs, those of this repository from the schemas: they are the same as far as programs see.
test('what this repository reads has the published types', async () => {
  const kinds = [
    'Evacuation',
    'MaintenanceWindow',
    'NodeDisruptionBudget',
    'NodeMaintenance',
    'NodeReadiness',
    'NodeReadinessPolicy',
  ];
  const source = join(import.meta.dirname, '..', '..', 'api', 'index.ts');
  const program = [
    `import type * as own from '${source}';`,
    "import type * as published from '@node-maintenance/api';",
    'type Loose<T> = T extends object ? { [K in keyof T]: Loose<T[K]> } : T;',
    "type Object<T extends own.KubeObject> = Omit<Loose<T>, 'apiVersion' | 'kind'>;",
    ...kinds.map(
      (kind) => `export const of${kind} = (read: Object<own.${kind}>): Object<published.${kind}> => read;`,
    ),
  ].join('\n');
  await writeFile(join(project.dir, 'same.ts'), program);
  const tsc = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'tsc');
  const options = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--allowImportingTsExtensions',
  ];
  const { stdout } = await promisify(execFile)(tsc, [...options, '--skipLibCheck', 'same.ts'], {
    cwd: project.dir,
  }).catch((error: { stdout: string }) => error);
  expect(stdout).toBe('');
});
