/**
 * A rule for oxlint: which top-level folder may import from which, at any depth (ARCHITECTURE.md > Code map). In JavaScript, because
 * oxlint may be started by any Node, in an editor for example.
 */
import { dirname, join, relative } from 'node:path';

const temporal = (...names) => names.map((name) => `@temporalio/${name}`);

/** Only kube knows how to talk to an apiserver. */
const onlyKube = ['@kubernetes/client-node', 'undici'];

/**
 * For each top-level folder: `from`, the folders or files that it may import; `types`, those from which it may import types;
 * `packages`, the only packages that it may import, or `not`, those that it may not. A name that ends in a colon or a slash stands
 * for all that begin with it. `layers`: groups of its subfolders, each of which may import from the groups
 * before its own.
 */
const folders = {
  api: { packages: ['zod'] },
  domain: {
    from: ['api/names.ts', 'api/text.ts'],
    types: ['api'],
    packages: ['croner'],
    layers: [
      ['common'],
      ['budget', 'capacity', 'evacuation', 'installation', 'leases', 'readiness', 'reboot'],
      ['drain', 'evictionRequests', 'notifications'],
      ['admission', 'maintenance', 'shutdown', 'staticPods', 'windows'],
      ['doctor', 'report', 'uninstall'],
    ],
  },
  workflows: {
    from: ['domain', 'api/names.ts'],
    types: ['api', 'activities/contract.ts'],
    packages: temporal('workflow', 'common'),
    layers: [['shared'], ['maintenance', 'notifications', 'windows']],
  },
  // Only the bundle of a worker that exports traces contains it.
  'workflows/traces.ts': { packages: temporal('workflow', 'common', 'interceptors-opentelemetry') },
  activities: {
    from: ['api', 'domain', 'kube', 'node-lease'],
    packages: [...temporal('activity', 'common'), 'node:util', 'node:timers/promises'],
    layers: [['leases', 'notifications', 'readiness'], ['drain', 'maintenance'], ['windows']],
  },
  controllers: {
    from: ['api', 'domain', 'kube', 'evacuator-kit', 'node-lease', 'temporal-config/currentKey.ts', 'temporal-config/readableMemo.ts', 'temporal-config/runs.ts', 'temporal-config/schedules.ts'],
    packages: [...temporal('client', 'common'), '@opentelemetry/api', 'node:util', 'node:timers/promises'],
    layers: [['evacuation', 'leases', 'maintenance', 'readiness', 'windows'], ['evictionRequests']],
  },
  'evacuator-kit': {
    from: ['api', 'domain', 'http', 'kube'],
    packages: ['@node-maintenance/api', 'node:http', 'node:os', 'pino', 'prom-client'],
  },
  // An example stands for an author's own program, and imports what an author has.
  'evacuator-kit/example.ts': { packages: ['@node-maintenance/evacuator-kit', '@kubernetes/client-node'] },
  'node-lease': { from: ['api', 'domain', 'kube'], packages: ['node:os'] },
  'node-lease/example.ts': { packages: ['@node-maintenance/node-lease', 'node:'] },
  kube: { from: ['api', 'domain/common/text.ts'], packages: ['node:', '@kubernetes/client-node', 'undici'], not: ['node:process', 'process'] },
  http: { from: ['kube/errors.ts', 'kube/log.ts'], packages: ['node:'] },
  // A process of its own on every node: it needs no Temporal.
  agent: {
    from: ['api', 'domain', 'http', 'kube', 'process'],
    packages: ['node:', 'commander', 'pino', '@homebridge/dbus-native', 'yaml', 'zod'],
    layers: [['reboot', 'shutdown', 'staticPods']],
  },
  // What the programs of an installation share: settings, logging, the end of tasks.
  process: { from: ['api/text.ts', 'domain/common/text.ts', 'kube/log.ts', 'package.json'], packages: ['node:fs', 'commander', 'pino', 'zod'] },
  admission: { from: ['api', 'domain', 'http', 'kube'], packages: ['node:', '@peculiar/x509', 'reflect-metadata', 'zod'] },
  'temporal-config': {
    from: ['api', 'domain'],
    packages: ['@temporalio/', 'node:', 'commander', 'yaml', 'zod'],
  },
  cli: {
    from: ['api', 'domain', 'kube', 'manifests', 'node-lease', 'temporal-config'],
    types: ['workflows', 'activities'],
    not: onlyKube,
    layers: [['terminal'], ['agent', 'completion', 'leases', 'maintenance', 'workers'], ['windows', 'doctor', 'report'], ['uninstall']],
  },
  worker: {
    from: [
      'api',
      'domain',
      'workflows',
      'activities',
      'controllers',
      'evacuator-kit',
      'node-lease',
      'http',
      'kube',
      'admission',
      'manifests',
      'process',
      'temporal-config',
    ],
    not: onlyKube,
  },
  'worker/notifications/endpoint.ts': { from: ['api', 'domain', 'worker'], packages: ['node:', 'undici'] },
  manifests: { from: ['api', 'domain/installation'], packages: ['node:', 'commander', 'yaml', 'zod'] },
  sandbox: { from: ['api', 'manifests', 'temporal-config'], not: onlyKube },
  // Examines any cluster, so that it must know nothing of what it examines.
  conformance: { from: ['api', 'kube'], packages: ['node:', 'commander'] },
  'sandbox/webhookClient.ts': { from: ['admission/issue.ts', 'sandbox'] },
  scripts: { from: ['api', 'sandbox', 'temporal-config'], not: onlyKube },
  // Generates manifests from api and admission, and reference documentation.
  'scripts/reference/metrics.ts': { from: ['agent/metrics.ts', 'worker/metrics/definitions.ts'] },
  'scripts/reference/settings.ts': { from: ['agent/config.ts', 'process/settings.ts', 'worker/config.ts', 'worker/codecServer/settings.ts'] },
  'scripts/reference/eventsAndConditions.ts': { from: ['api'] },
  'scripts/reference/plots.ts': { from: ['bench/plot.ts', 'bench/tables.ts'] },
  'scripts/reference/performance.ts': { from: ['bench/recordedTables.ts', 'bench/recordings.ts', 'bench/results.ts'] },
  'scripts/reference/peers.ts': { from: ['bench/peersPage.ts', 'bench/recordings.ts', 'bench/results.ts'] },
  'scripts/reference/reliabilityRuns.ts': { types: ['test/chaos/endurance/record.ts', 'test/chaos/results.ts'] },
  'scripts/generate.ts': {
    from: ['scripts', 'api', 'manifests', 'admission/drainPlanPolicy.ts', 'admission/registration.ts', 'admission/windowAuthorPolicy.ts'],
  },
};

/** Everything that production code does not import: sandbox, demo, bench, test and scripts may import all but tests. */
const free = {
  demo: { except: ['test'], not: onlyKube },
  bench: { except: ['test'], not: onlyKube },
};

const isWithin = (path, place) => path === place || path.startsWith(`${place}/`);
const matches = (name, pattern) => (/[:/]$/.test(pattern) ? name.startsWith(pattern) : name === pattern || name.startsWith(`${pattern}/`));

/** Why `file` may not import `target` (a path from the root) or the package `name`; undefined when it may. */
function problemOf(file, { target, name, isType }) {
  const [folder] = file.split('/');
  const place = file in folders ? file : folder;
  const rule = folders[place] ?? free[place];
  if (rule === undefined) return undefined;
  return target === undefined ? packageProblem(rule, place, name) : pathProblem(rule, { place, file, target, isType });
}

function packageProblem({ packages, not = [] }, place, name) {
  if (not.some((one) => matches(name, one))) return `${place} does not import ${name}.`;
  if (packages === undefined || packages.some((one) => matches(name, one))) return undefined;
  return `${place} imports no packages but ${packages.join(', ') || 'none'}.`;
}

function pathProblem(rule, { place, file, target, isType }) {
  const isIn = (places) => places.some((one) => isWithin(target, one));
  const { from = [], types = [], except } = rule;
  if (except !== undefined) return isIn(except) ? `${place} does not import ${target}.` : undefined;
  if (isWithin(target, place)) return layerProblem(rule, file, target);
  if (isIn(from) || (isType && isIn(types))) return undefined;
  const alsoTypes = types.length === 0 ? '' : `, and types of ${types.join(', ')}`;
  return `${place} imports only ${from.join(', ') || 'itself'}${alsoTypes}.`;
}

function layerProblem({ layers = [] }, file, target) {
  const [own, other] = [file, target].map((path) => path.split('/').slice(0, -1)[1]);
  if (own === undefined || other === undefined || own === other) return undefined;
  const layerOf = (folder) => layers.findIndex((layer) => layer.includes(folder));
  if (layers.length === 0) return undefined;
  const [folder] = file.split('/');
  const unlisted = [own, other].find((name) => layerOf(name) === -1);
  if (unlisted !== undefined) return `${folder}/${unlisted} is in no layer of ${folder}: add it to scripts/lint/imports.mjs.`;
  if (layerOf(other) < layerOf(own)) return undefined;
  return `${folder}/${own} does not import ${folder}/${other}: see the layers of ${folder}.`;
}

const directions = {
  create: (context) => {
    const file = relative(context.cwd, context.filename);
    const check = (node, source, isType) => {
      const name = source?.value;
      if (typeof name !== 'string') return;
      const target = name.startsWith('.') ? join(dirname(file), name) : undefined;
      const message = problemOf(file, { target, name, isType });
      if (message !== undefined) context.report({ node, message });
    };
    const isTypeOnly = ({ importKind, exportKind, specifiers = [] }) =>
      importKind === 'type' ||
      exportKind === 'type' ||
      (specifiers.length > 0 && specifiers.every((one) => (one.importKind ?? one.exportKind) === 'type'));
    return {
      ImportDeclaration: (node) => check(node, node.source, isTypeOnly(node)),
      ExportNamedDeclaration: (node) => check(node, node.source, isTypeOnly(node)),
      ExportAllDeclaration: (node) => check(node, node.source, isTypeOnly(node)),
      ImportExpression: (node) => check(node, node.source, false),
    };
  },
};

export default { meta: { name: 'imports' }, rules: { directions } };
