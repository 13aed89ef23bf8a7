import { readFile } from 'node:fs/promises';
import { parse, parseAllDocuments } from 'yaml';
import type { KubeObject } from '../api/core.ts';
import { type InstallationOptions, withLabels } from './render.ts';

const deploy = new URL('../deploy/', import.meta.url);

const windowJobsFolder = new URL('window-jobs/', deploy);

/** Reads the objects of an installation: those of deploy/, and of deploy/window-jobs where Jobs of windows are enabled. */
export async function readInstallation({ windowJobs }: InstallationOptions): Promise<KubeObject[]> {
  const jobs = windowJobs?.kind === 'Enabled' ? await readManifests(windowJobsFolder) : [];
  return [...(await readManifests()), ...jobs];
}

/** Reads the objects that the kustomization deploy/ lists, also those of the folders that it names, with the labels of its components. */
export async function readManifests(folder = deploy): Promise<KubeObject[]> {
  const { resources: entries = [], components = [] } = await readKustomization(folder);
  const manifests = await Promise.all(
    entries.map(async (entry) => {
      if (!entry.endsWith('.yaml')) return readManifests(new URL(`${entry}/`, folder));
      const text = await readFile(new URL(entry, folder), 'utf8');
      return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
    }),
  );
  const added = await Promise.all(components.map((name) => readKustomization(new URL(`${name}/`, folder))));
  const labels = added.flatMap((component) => component.labels ?? []).map(({ pairs }) => pairs);
  return manifests.flat().map((manifest) => withLabels(manifest, Object.assign({}, ...labels)));
}

interface Kustomization {
  resources?: string[];
  components?: string[];
  labels?: { pairs: Record<string, string> }[];
}

async function readKustomization(folder: URL): Promise<Kustomization> {
  return parse(await readFile(new URL('kustomization.yaml', folder), 'utf8')) as Kustomization;
}
