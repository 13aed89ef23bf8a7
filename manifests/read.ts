import { join } from 'node:path/posix';
import { parse, parseAllDocuments } from 'yaml';
import type { KubeObject } from '../api/core.ts';
import { deployFile } from './deployFiles.ts';
import { type InstallationOptions, withLabels } from './render.ts';

/** Reads the objects of an installation: those of deploy/, and of its optional parts that are enabled. */
export async function readInstallation({
  windowJobs,
  evictionRequests = false,
}: InstallationOptions): Promise<KubeObject[]> {
  const jobs = windowJobs?.kind === 'Enabled' ? await readManifests('window-jobs') : [];
  const requests = evictionRequests ? await readManifests('eviction-requests') : [];
  return [...(await readManifests()), ...jobs, ...requests];
}

/**
 * Reads the objects that the kustomization of a folder of deploy/ lists, also those of the folders that it names, with the labels of its components. By
 * default the folder is deploy/ itself.
 */
export async function readManifests(folder = '.'): Promise<KubeObject[]> {
  const { resources: entries = [], components = [] } = readKustomization(folder);
  const manifests = await Promise.all(
    entries.map(async (entry) => {
      const path = join(folder, entry);
      return entry.endsWith('.yaml') ? readDocuments(path) : readManifests(path);
    }),
  );
  const added = components.map((name) => readKustomization(join(folder, name)));
  const labels = added.flatMap((component) => component.labels ?? []).map(({ pairs }) => pairs);
  return manifests.flat().map((manifest) => withLabels(manifest, Object.assign({}, ...labels)));
}

/** Files of deploy/ that were parsed: they do not change, and take a process longer than anything else at its start. */
const parsed = new Map<string, readonly KubeObject[]>();

/** Returns copies: callers may change them. */
function readDocuments(path: string): KubeObject[] {
  const known =
    parsed.get(path) ?? parseAllDocuments(deployFile(path)).map((document) => document.toJS() as KubeObject);
  parsed.set(path, known);
  return structuredClone([...known]);
}

interface Kustomization {
  resources?: string[];
  components?: string[];
  labels?: { pairs: Record<string, string> }[];
}

function readKustomization(folder: string): Kustomization {
  return parse(deployFile(join(folder, 'kustomization.yaml'))) as Kustomization;
}
