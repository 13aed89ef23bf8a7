import { Option } from 'commander';
import * as z from 'zod';

export interface Notifications {
  /** Its path may be a secret. */
  url: string;
  /** A file with one `Name: value` in each line. */
  headersFile: string | undefined;
  caFile: string | undefined;
  timeoutSeconds: number;
  /** How long the receiver may be down before a notice is given up. */
  patienceHours: number;
}

export function noticeOptions(): Option[] {
  return [
    notifyUrlOption(),
    new Option(
      '--notify-headers-file <file>',
      'a file with one "Name: value" in each line, such as Authorization; read anew for each notice',
    ).env('NOTIFY_HEADERS_FILE'),
    new Option('--notify-ca-file <file>', 'certificates in PEM by which to know the receiver').env(
      'NOTIFY_CA_FILE',
    ),
    notifyNumberOption('timeout', { unit: 'seconds', fallback: 10, most: 60 }),
    notifyNumberOption('patience', { unit: 'hours', fallback: 24, most: 168 }),
    clusterNameOption(),
  ];
}

/** Throws an Error that names the option that is missing. */
export function notificationsIn(options: Record<string, unknown>): Notifications | undefined {
  const url = options['notifyUrl'] as string | undefined;
  const [headersFile, caFile] = [options['notifyHeadersFile'], options['notifyCaFile']] as (
    | string
    | undefined
  )[];
  if (url === undefined && (headersFile ?? caFile) !== undefined)
    throw new Error('--notify-url (NOTIFY_URL): expected beside --notify-headers-file and --notify-ca-file');
  if (url === undefined) return undefined;
  const timeoutSeconds = options['notifyTimeout'] as number;
  return { url, headersFile, caFile, timeoutSeconds, patienceHours: options['notifyPatience'] as number };
}

function notifyUrlOption(): Option {
  return new Option('--notify-url <url>', 'who is told what happens, as CloudEvents over HTTP')
    .env('NOTIFY_URL')
    .argParser((value) => {
      const url = URL.parse(value);
      // Not the value: it may have a secret in it.
      if (url === null || !['http:', 'https:'].includes(url.protocol) || url.hash !== '')
        throw new Error('--notify-url (NOTIFY_URL): expected a URL of http or https, without a fragment');
      if (url.username !== '' || url.password !== '')
        throw new Error(
          '--notify-url (NOTIFY_URL): expected no user and password in it; give an Authorization header by --notify-headers-file',
        );
      return url.href;
    });
}

function notifyNumberOption(
  name: 'timeout' | 'patience',
  { unit, fallback, most }: { unit: string; fallback: number; most: number },
): Option {
  const what = { timeout: 'how long it may take to answer', patience: 'how long it may be down' }[name];
  const variable = `NOTIFY_${name.toUpperCase()}`;
  return new Option(`--notify-${name} <${unit}>`, what)
    .env(variable)
    .default(fallback)
    .argParser((value) => {
      const parsed = z.coerce.number().int().min(1).max(most).safeParse(value);
      if (parsed.success) return parsed.data;
      throw new Error(
        `--notify-${name} (${variable}): expected whole ${unit}, 1 to ${most} (got "${value}")`,
      );
    });
}

function clusterNameOption(): Option {
  return new Option('--cluster-name <name>', 'what notices call this cluster (default: its UID)')
    .env('CLUSTER_NAME')
    .argParser((value) => {
      if (/^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/.test(value)) return value;
      throw new Error(
        `--cluster-name (CLUSTER_NAME): expected lower case letters, digits, "-" and "." (got "${value}")`,
      );
    });
}
