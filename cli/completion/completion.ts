import { Argument, type Command, type Option } from 'commander';
import { stageOf } from '../../domain/common/stage.ts';
import type { Kube } from '../../kube/client.ts';
import { contextNames } from '../../kube/config.ts';
import { resources } from '../../kube/resources.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { print, escapeForTerminal } from '../output.ts';
import { scripts } from './completionScripts.ts';

/**
 * Shell completion with the protocol of Cobra, which kubectl uses for its plugins: `kubectl_complete-maintenance` receives the
 * typed words, the last one incomplete, and prints one line for each suggestion, `value<TAB>description`, followed by
 * `:4`, or by `:0` if file names are allowed.
 */

/** kubectl maintenance completion, and the hidden command that shells call. */
export function addCompletionVerbs(program: Command): void {
  program
    .command('completion')
    .description('print a completion script; the completion of kubectl includes `kubectl maintenance`')
    .addArgument(new Argument('<shell>').choices(Object.keys(scripts)))
    .action((shell: keyof typeof scripts) => print(scripts[shell]));
  program
    .command('__complete', { hidden: true })
    .argument('[word...]')
    .action(async (words: string[]) => {
      const { suggestions, allowsFiles } = await suggest(program, words.length === 0 ? [''] : words);
      for (const { value, about } of suggestions) print(about === '' ? value : `${value}\t${about}`);
      print(allowsFiles ? ':0' : ':4');
    });
}

interface Suggestion {
  readonly value: string;
  readonly about: string;
}

interface Completion {
  readonly suggestions: readonly Suggestion[];
  readonly allowsFiles: boolean;
}

/** The parsed words before the word to complete. */
interface Typed {
  command: Command;
  /** The path of commands from the program to the current command. */
  commands: Command[];
  operands: string[];
  values: Record<string, string>;
  /** The option whose value is the next word. */
  pendingOption: Option | undefined;
}

async function suggest(program: Command, words: readonly string[]): Promise<Completion> {
  const typed = readWords(program, words.slice(0, -1));
  const word = words.at(-1) ?? '';
  const [, flag, start] = /^(--[\w-]+)=(.*)$/.exec(word) ?? [];
  if (flag !== undefined) {
    const { suggestions, allowsFiles } = valuesOf(optionOf(typed, flag), typed);
    const whole = suggestions.map(({ value, about }) => ({ value: `${flag}=${value}`, about }));
    return { suggestions: startingWith(whole, `${flag}=${start}`), allowsFiles };
  }
  if (typed.pendingOption !== undefined) {
    const { suggestions, allowsFiles } = valuesOf(typed.pendingOption, typed);
    return { suggestions: startingWith(suggestions, word), allowsFiles };
  }
  const all = word.startsWith('-') ? optionsOf(typed) : await operandsOf(typed);
  return { suggestions: startingWith(all, word), allowsFiles: false };
}

function startingWith(suggestions: readonly Suggestion[], start: string): Suggestion[] {
  return suggestions.filter(({ value }) => value.startsWith(start));
}

function readWords(program: Command, words: readonly string[]): Typed {
  const typed: Typed = {
    command: program,
    commands: [program],
    operands: [],
    values: {},
    pendingOption: undefined,
  };
  for (const word of words) readWord(typed, word);
  return typed;
}

function readWord(typed: Typed, word: string): void {
  const { pendingOption } = typed;
  typed.pendingOption = undefined;
  if (pendingOption !== undefined) {
    typed.values[pendingOption.attributeName()] = word;
    return;
  }
  if (word.startsWith('-')) {
    const [flag = '', value] = word.split('=', 2);
    const option = optionOf(typed, flag);
    if (value !== undefined && option !== undefined) typed.values[option.attributeName()] = value;
    else if (option?.required === true) typed.pendingOption = option;
    return;
  }
  const next = typed.command.commands.find((one) => one.name() === word);
  if (next === undefined) typed.operands.push(word);
  else Object.assign(typed, { command: next, commands: [...typed.commands, next] });
}

function optionOf({ commands }: Typed, flag: string): Option | undefined {
  return commands
    .flatMap(({ options }) => options)
    .find(({ short, long }) => short === flag || long === flag);
}

function optionsOf({ commands }: Typed): Suggestion[] {
  return commands
    .toReversed()
    .flatMap(({ options }) => options)
    .map(({ long, description }) => ({ value: long ?? '', about: description }));
}

/** Options whose value is a file name. */
const fileOptions = new Set(['kubeconfig', 'plan', 'filename']);

function valuesOf(option: Option | undefined, typed: Typed): Completion {
  const name = option?.attributeName() ?? '';
  if (fileOptions.has(name)) return { suggestions: [], allowsFiles: true };
  const values = name === 'context' ? contexts(typed) : (option?.argChoices ?? []);
  return { suggestions: values.map((value) => ({ value, about: '' })), allowsFiles: false };
}

function contexts({ values }: Typed): string[] {
  try {
    return contextNames(values);
  } catch {
    return [];
  }
}

async function operandsOf(typed: Typed): Promise<Suggestion[]> {
  const { command, operands } = typed;
  if (command.commands.length > 0 && operands.length === 0)
    return command.commands
      .filter((one) => !one.name().startsWith('_'))
      .map((one) => ({ value: one.name(), about: one.description() }));
  const { registeredArguments: all } = command;
  const last = all.at(-1);
  const argument = all[operands.length] ?? (last?.variadic === true ? last : undefined);
  if (argument?.argChoices !== undefined) return argument.argChoices.map((value) => ({ value, about: '' }));
  const names = await namesFor(argument?.name() ?? '', typed);
  return names.filter(({ value }) => !operands.includes(value));
}

const maxDescriptionLength = 60;

const requestTimeoutMs = 3_000;

/** Returns names of objects in the cluster, or none if it is unavailable: completion does not print errors. */
async function namesFor(argument: string, { command, values }: Typed): Promise<Suggestion[]> {
  const lookup = lookups[argument];
  if (lookup === undefined) return [];
  try {
    return await withCluster(values as ClusterOptions, (kube) => lookup(kube, command.name()));
  } catch {
    return [];
  }
}

type Lookup = (kube: Kube, verb: string) => Promise<Suggestion[]>;

/** Keyed by the name of the argument. */
const lookups: Record<string, Lookup> = { node: nodes, name: maintenances, window: windows };

async function nodes(kube: Kube): Promise<Suggestion[]> {
  const { items } = await kube.list(resources.nodes, { timeoutMs: requestTimeoutMs });
  return items.map(({ metadata, spec }) => ({
    value: metadata.name,
    about: spec?.unschedulable === true ? 'cordoned' : '',
  }));
}

const readOnlyVerbs: readonly string[] = ['status', 'history', 'report'];

/** Completed maintenances are suggested for read-only commands only. */
async function maintenances(kube: Kube, verb: string): Promise<Suggestion[]> {
  const { items } = await kube.list(resources.nodeMaintenances, { timeoutMs: requestTimeoutMs });
  return items
    .filter((one) => readOnlyVerbs.includes(verb) || stageOf(one) !== 'Complete')
    .map((one) => ({
      value: one.metadata.name,
      about: escapeForTerminal(`${stageOf(one)} ${one.spec.reason ?? ''}`.trim(), maxDescriptionLength),
    }));
}

async function windows(kube: Kube): Promise<Suggestion[]> {
  const { items } = await kube.list(resources.maintenanceWindows, { timeoutMs: requestTimeoutMs });
  return items.map(({ metadata, spec, status }) => {
    const state = status?.active === undefined ? '' : 'open: ';
    const about = `${state}${status?.schedule ?? ''} ${spec.template.reason ?? ''}`;
    return { value: metadata.name, about: escapeForTerminal(about.trim(), maxDescriptionLength) };
  });
}
