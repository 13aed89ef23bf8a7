import { Argument, type Command, type Option } from 'commander';
import { stageOf } from '../domain/stage.ts';
import type { Kube } from '../kube/client.ts';
import { contextNames } from '../kube/config.ts';
import { resources } from '../kube/resources.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { say, shown } from './output.ts';
import { scripts } from './completionScripts.ts';

/**
 * Completion as Cobra's programs do it, because kubectl asks its plugins in that way: `kubectl_complete-maintenance` gets the words
 * that were typed, the last one unfinished, and answers with a line for each suggestion, `value<TAB>description`, and at last
 * `:4`, or `:0` where names of files may follow.
 */

/** kubectl maintenance completion, and what the shells ask. */
export function addCompletionVerbs(program: Command): void {
  program
    .command('completion')
    .description('print a completion script; `kubectl maintenance` itself is completed where kubectl is')
    .addArgument(new Argument('<shell>').choices(Object.keys(scripts)))
    .action((shell: keyof typeof scripts) => say(scripts[shell]));
  program
    .command('__complete', { hidden: true })
    .argument('[word...]')
    .action(async (words: string[]) => {
      const { suggestions, allowsFiles } = await suggest(program, words.length === 0 ? [''] : words);
      for (const { value, about } of suggestions) say(about === '' ? value : `${value}\t${about}`);
      say(allowsFiles ? ':0' : ':4');
    });
}

interface Suggestion {
  readonly value: string;
  readonly about: string;
}

interface Answer {
  readonly suggestions: readonly Suggestion[];
  readonly allowsFiles: boolean;
}

/** What was typed before the word that is completed. */
interface Typed {
  command: Command;
  /** From the program down to the command. */
  commands: Command[];
  operands: string[];
  values: Record<string, string>;
  /** The option whose value comes next. */
  awaiting: Option | undefined;
}

async function suggest(program: Command, words: readonly string[]): Promise<Answer> {
  const typed = readWords(program, words.slice(0, -1));
  const word = words.at(-1) ?? '';
  const [, flag, start] = /^(--[\w-]+)=(.*)$/.exec(word) ?? [];
  if (flag !== undefined) {
    const { suggestions, allowsFiles } = valuesOf(optionOf(typed, flag), typed);
    const whole = suggestions.map(({ value, about }) => ({ value: `${flag}=${value}`, about }));
    return { suggestions: beginning(whole, `${flag}=${start}`), allowsFiles };
  }
  if (typed.awaiting !== undefined) {
    const { suggestions, allowsFiles } = valuesOf(typed.awaiting, typed);
    return { suggestions: beginning(suggestions, word), allowsFiles };
  }
  const all = word.startsWith('-') ? optionsOf(typed) : await operandsOf(typed);
  return { suggestions: beginning(all, word), allowsFiles: false };
}

function beginning(suggestions: readonly Suggestion[], start: string): Suggestion[] {
  return suggestions.filter(({ value }) => value.startsWith(start));
}

function readWords(program: Command, words: readonly string[]): Typed {
  const typed: Typed = {
    command: program,
    commands: [program],
    operands: [],
    values: {},
    awaiting: undefined,
  };
  for (const word of words) readWord(typed, word);
  return typed;
}

function readWord(typed: Typed, word: string): void {
  const { awaiting } = typed;
  typed.awaiting = undefined;
  if (awaiting !== undefined) {
    typed.values[awaiting.attributeName()] = word;
    return;
  }
  if (word.startsWith('-')) {
    const [flag = '', value] = word.split('=', 2);
    const option = optionOf(typed, flag);
    if (value !== undefined && option !== undefined) typed.values[option.attributeName()] = value;
    else if (option?.required === true) typed.awaiting = option;
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

/** Options whose value is the name of a file. */
const files = new Set(['kubeconfig', 'plan', 'filename']);

function valuesOf(option: Option | undefined, typed: Typed): Answer {
  const name = option?.attributeName() ?? '';
  if (files.has(name)) return { suggestions: [], allowsFiles: true };
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

/** Characters. */
const longestAbout = 60;

/** Nobody waits longer for a suggestion. Milliseconds. */
const patience = 3_000;

/** Names that the cluster has; none where it does not answer: this is no place for complaints. */
async function namesFor(argument: string, { command, values }: Typed): Promise<Suggestion[]> {
  const lookUp = lookUps[argument];
  if (lookUp === undefined) return [];
  try {
    return await withCluster(values as ClusterOptions, (kube) => lookUp(kube, command.name()));
  } catch {
    return [];
  }
}

type LookUp = (kube: Kube, verb: string) => Promise<Suggestion[]>;

/** By the name of the argument. */
const lookUps: Record<string, LookUp> = { node: nodes, name: maintenances, window: windows };

async function nodes(kube: Kube): Promise<Suggestion[]> {
  const { items } = await kube.list(resources.nodes, { timeoutMs: patience });
  return items.map(({ metadata, spec }) => ({
    value: metadata.name,
    about: spec?.unschedulable === true ? 'cordoned' : '',
  }));
}

/** What is complete can only be looked at. */
async function maintenances(kube: Kube, verb: string): Promise<Suggestion[]> {
  const { items } = await kube.list(resources.nodeMaintenances, { timeoutMs: patience });
  return items
    .filter((one) => verb === 'status' || verb === 'history' || stageOf(one) !== 'Complete')
    .map((one) => ({
      value: one.metadata.name,
      about: shown(`${stageOf(one)} ${one.spec.reason ?? ''}`.trim(), longestAbout),
    }));
}

async function windows(kube: Kube): Promise<Suggestion[]> {
  const { items } = await kube.list(resources.maintenanceWindows, { timeoutMs: patience });
  return items.map(({ metadata, spec, status }) => {
    const state = status?.active === undefined ? '' : 'open: ';
    const about = `${state}${status?.schedule ?? ''} ${spec.template.reason ?? ''}`;
    return { value: metadata.name, about: shown(about.trim(), longestAbout) };
  });
}
