import * as z from 'zod';
import { setting, wholeNumber } from '../../process/settings.ts';

export interface NotificationSettings {
  /** Its path may be a secret. */
  url: string;
  /** A file with one `Name: value` in each line. */
  headersFile: string | undefined;
  caFile: string | undefined;
  timeoutSeconds: number;
  /** A notification that is not delivered after this time is dropped. */
  maxAgeHours: number;
}

const url = z
  .string()
  .transform((text) => URL.parse(text))
  .refine(
    (parsed) => parsed !== null && ['http:', 'https:'].includes(parsed.protocol) && parsed.hash === '',
    {
      error: 'expected a URL of http or https, without a fragment',
      abort: true,
    },
  )
  .refine((parsed) => parsed?.username === '' && parsed.password === '', {
    error: 'expected a URL without user and password; set an Authorization header with --notify-headers-file',
  })
  .transform((parsed) => parsed?.href ?? '');

/** Fields of the worker's settings. */
export const notificationSettings = {
  notifyUrl: setting(url.optional(), {
    flags: '--notify-url <url>',
    variable: 'NOTIFY_URL',
    description: 'send notifications as CloudEvents to this URL',
    isSecret: true,
  }),
  notifyHeadersFile: setting(z.string().optional(), {
    flags: '--notify-headers-file <file>',
    variable: 'NOTIFY_HEADERS_FILE',
    description:
      'file with one "Name: value" in each line, such as Authorization; read for each notification',
  }),
  notifyCaFile: setting(z.string().optional(), {
    flags: '--notify-ca-file <file>',
    variable: 'NOTIFY_CA_FILE',
    description: 'certificates in PEM that the endpoint is verified with',
  }),
  notifyTimeout: setting(wholeNumber('whole seconds', 1, 60).default(10), {
    flags: '--notify-timeout <seconds>',
    variable: 'NOTIFY_TIMEOUT',
    description: 'how long the endpoint may take to answer',
    defaultText: '10',
  }),
  notifyMaxAge: setting(wholeNumber('whole hours', 1, 168).default(24), {
    flags: '--notify-max-age <hours>',
    variable: 'NOTIFY_MAX_AGE',
    description: 'drop undelivered notifications after this many hours',
    defaultText: '24',
  }),
};

type Values = z.output<z.ZodObject<typeof notificationSettings>>;

/** Returns an issue when an option of the endpoint is set without its URL. */
export function checkNotificationSettings({
  notifyUrl,
  notifyHeadersFile,
  notifyCaFile,
}: Values): z.core.$ZodRawIssue[] {
  if (notifyUrl !== undefined || (notifyHeadersFile ?? notifyCaFile) === undefined) return [];
  const message = 'required with --notify-headers-file and --notify-ca-file';
  return [{ code: 'custom', path: ['notifyUrl'], message, input: notifyUrl }];
}

/** Returns undefined when no notifications are sent. */
export function notificationSettingsOf(values: Values): NotificationSettings | undefined {
  const { notifyUrl, notifyHeadersFile, notifyCaFile, notifyTimeout, notifyMaxAge } = values;
  if (notifyUrl === undefined) return undefined;
  return {
    url: notifyUrl,
    headersFile: notifyHeadersFile,
    caFile: notifyCaFile,
    timeoutSeconds: notifyTimeout,
    maxAgeHours: notifyMaxAge,
  };
}
