import { chmod, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import type { WebhookConfiguration } from '../../admission/registration.ts';
import { WEBHOOK_HOSTS_ANNOTATION } from '../../api/names.ts';

/** The port of an admission server that runs as a process of the test. */
export interface WebhookAddress {
  /** Directory of the release whose webhooks are installed. */
  source: string;
  port: number;
}

const host = '127.0.0.1';

/**
 * Writes a kustomization of deploy/ to a directory in `dir`, and returns it. Its webhooks call an admission server at this port, in place of
 * the Service: no pod of a simulated node can serve them.
 */
export async function deployWithAddress(dir: string, address: WebhookAddress): Promise<string> {
  const path = await mkdtemp(join(dir, 'overlay-'));
  const resources = [relative(path, join(address.source, 'deploy'))];
  await writeKustomization(path, { resources, patches: await patchesFor(address) });
  return path;
}

/** Writes a program that does the same to what Helm renders, for `--post-renderer`. Returns its path. */
export async function postRendererFor(dir: string, address: WebhookAddress): Promise<string> {
  const path = await mkdtemp(join(dir, 'renderer-'));
  await writeKustomization(path, { resources: ['rendered.yaml'], patches: await patchesFor(address) });
  const program = join(path, 'render');
  await writeFile(program, `#!/bin/sh\ncd "${path}" && cat >rendered.yaml && kubectl kustomize .\n`);
  await chmod(program, 0o755);
  return program;
}

function writeKustomization(path: string, kustomization: object): Promise<void> {
  return writeFile(join(path, 'kustomization.yaml'), stringify(kustomization));
}

async function patchesFor({ source, port }: WebhookAddress): Promise<{ patch: string }[]> {
  const manifests = await readFile(join(source, 'deploy', 'admission', 'webhooks.yaml'), 'utf8');
  return parseAllDocuments(manifests).map((document) => {
    const { apiVersion, kind, metadata, webhooks } = document.toJS() as WebhookConfiguration;
    const patch = {
      apiVersion,
      kind,
      metadata: { name: metadata.name, annotations: { [WEBHOOK_HOSTS_ANNOTATION]: host } },
      webhooks: webhooks.map(({ name, clientConfig }) => ({
        name,
        clientConfig: { service: null, url: `https://${host}:${port}${clientConfig.service?.path}` },
      })),
    };
    return { patch: stringify(patch) };
  });
}
