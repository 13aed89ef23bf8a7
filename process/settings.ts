import { type Command, Option } from 'commander';
import * as z from 'zod';
import { oneLine } from '../domain/common/text.ts';

/** Describes where the value of a setting comes from and how `--help` presents it. */
export interface SettingSource {
  /** Flag in commander's notation, such as `--health-port <port>`; undefined for a setting that only the environment has. */
  readonly flags?: string;
  /** Environment variable; the flag takes precedence over it. */
  readonly variable?: string;
  readonly description?: string;
  readonly choices?: readonly string[];
  /** Shown by `--help`; the schema applies it. */
  readonly defaultText?: string;
  /** Error messages do not repeat the value. */
  readonly isSecret?: boolean;
}

const sources = z.registry<SettingSource>();

/** Ties a field of a settings schema to its flag and environment variable. */
export function setting<Schema extends z.ZodType>(schema: Schema, source: SettingSource): Schema {
  sources.add(schema, source);
  return schema;
}

/** Returns a schema for a whole number in the range, given as text. `what` names it in errors, such as `whole seconds`. */
export function wholeNumber(what: string, min: number, max: number) {
  const error = `expected ${what}, ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d+$/, { error })
    .transform(Number)
    .refine((value) => value >= min && value <= max, { error });
}

/** Returns a schema for seconds in the range, given as text with at most three decimals. */
export function decimalSeconds(min: number, max: number) {
  const error = `expected seconds such as 0.5, ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d+(\.\d{1,3})?$/, { error })
    .transform(Number)
    .refine((value) => value >= min && value <= max, { error });
}

type Values = Readonly<Record<string, unknown>>;

const maxShownLength = 200;

/**
 * Parses command line and environment with one schema; each field takes its flag, else its variable. commander reads the
 * flags and prints `--help`, the schema validates. Throws commander's CommanderError, after it has printed what is wrong, for an
 * unknown flag, and an Error with one line for each invalid setting.
 */
export function parseSettings<Schema extends z.ZodObject>(
  schema: Schema,
  { command, argv, env }: { command: Command; argv: readonly string[]; env: NodeJS.ProcessEnv },
): z.output<Schema> {
  const fields = Object.entries(schema.shape).map(([key, field]) => [key, sourceOf(field)] as const);
  for (const [, source] of fields) addOption(command, source);
  command.parse(argv, { from: 'user' });
  // By the names of the flags: those of the fields may differ.
  const flags: Values = command.opts();
  const values: Values = Object.fromEntries(
    fields.map(([key, { flags: names, variable }]) => [
      key,
      (names === undefined ? undefined : flags[new Option(names).attributeName()]) ??
        (variable && env[variable]),
    ]),
  );
  const parsed = schema.safeParse(values);
  if (parsed.success) return parsed.data;
  throw new Error(parsed.error.issues.map((issue) => describeIssue(schema, issue, values)).join('\n'));
}

/** Returns the sources of all settings that have a description, in their order. */
export function sourcesOf(schema: z.ZodObject): SettingSource[] {
  return Object.values(schema.shape)
    .map(sourceOf)
    .filter(({ description }) => description !== undefined);
}

function sourceOf(field: z.core.$ZodType): SettingSource {
  return sources.get(field) ?? {};
}

function addOption(command: Command, { flags, description, ...source }: SettingSource): void {
  if (flags === undefined) return;
  const hints = hintsOf(source);
  const text = [description, hints === '' ? undefined : `(${hints})`].filter((part) => part !== undefined);
  // Not Option.env(): commander would read process.env itself.
  command.addOption(new Option(flags, text.join(' ')));
}

function hintsOf({ choices, defaultText, variable }: SettingSource): string {
  return [
    choices && `choices: ${choices.map((choice) => `"${choice}"`).join(', ')}`,
    defaultText && `default: ${defaultText}`,
    variable && `env: ${variable}`,
  ]
    .filter((hint) => hint !== undefined)
    .join(', ');
}

/** Names flag and variable, as in `--readiness-grace (READINESS_GRACE): expected whole seconds, 0 to 3600 (got "x")`. */
function describeIssue(schema: z.ZodObject, { path, message }: z.core.$ZodIssue, values: Values): string {
  const key = String(path[0]);
  const field = schema.shape[key];
  const { flags = '', variable, isSecret = false } = field === undefined ? {} : sourceOf(field);
  const [flag = ''] = flags.split(' ');
  const name = [flag, variable && (flag === '' ? variable : `(${variable})`)].filter(Boolean).join(' ');
  const value = values[key];
  const got =
    isSecret || value === undefined ? '' : ` (got ${oneLine(JSON.stringify(value), maxShownLength)})`;
  return `${name}: ${message}${got}`;
}
