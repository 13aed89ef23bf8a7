import { type Command, Option } from 'commander';
import { numbered } from '../../domain/common/text.ts';
import { type Finding, type ReportedFinding, worstOf } from '../../domain/doctor/finding.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { duration, namespaceOption, outputOption } from '../options.ts';
import { escapeForTerminal, formatObject, print, type Structured } from '../output.ts';
import { createScreen } from '../terminal/screen.ts';
import { padTo, wrap } from '../terminal/width.ts';
import { examine } from './checks.ts';
import { ownRelease } from './installation.ts';

interface DoctorOptions extends ClusterOptions {
  readonly namespace: string;
  /** Value of --stuck-after in milliseconds. */
  readonly stuckAfter: number;
  readonly output?: Structured;
}

/** The report for scripts and support cases. */
export interface DoctorReport {
  readonly result: Finding['result'];
  readonly version: string;
  /** RFC 3339, by the clock of the apiserver. */
  readonly checkedAt: string;
  readonly findings: readonly ReportedFinding[];
}

/** kubectl maintenance doctor */
export function addDoctorVerb(program: Command): void {
  program
    .command('doctor')
    .description(
      'examine the installation and what is stuck, with a remedy for each problem; changes nothing',
    )
    .addOption(namespaceOption())
    .addOption(
      new Option('--stuck-after <duration>', 'report an operation as stuck when it has lasted this long')
        .argParser(duration)
        .default(5 * 60_000, '5m'),
    )
    .addOption(outputOption())
    .action((_options, command: Command) => run(command.optsWithGlobals()));
}

async function run({ namespace, stuckAfter, output, ...cluster }: DoctorOptions): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const findings = await examine(kube, { namespace, stuckAfterMs: stuckAfter });
    const report: DoctorReport = {
      result: worstOf(findings),
      version: await ownRelease(),
      checkedAt: kube.now().toISOString(),
      findings,
    };
    if (output === undefined) printReport(report);
    else print(formatObject(report, output));
    if (report.result === 'error') process.exitCode = 1;
  });
}

/** Longer messages are cut in the table; `-o json` has them whole. */
const maxMessageLength = 2_000;

function printReport({ findings, version }: DoctorReport): void {
  const screen = createScreen(process.stdout);
  const { colors } = screen;
  const checkWidth = Math.max(...findings.map(({ check }) => check.length));
  const paints = { ok: colors.green, warning: colors.yellow, error: colors.red };
  for (const { result, check, object, message, remedy } of findings) {
    const start = `${padTo(result, 'warning'.length)}   ${padTo(check, checkWidth)}   `;
    const subject = object === undefined ? '' : `${object}: `;
    const room = Math.max(30, screen.width() - start.length);
    const texts = [`${subject}${message}`, ...(remedy === undefined ? [] : [`Remedy: ${remedy}`])];
    const lines = texts.flatMap((text) => wrap(escapeForTerminal(text, maxMessageLength), room));
    const indent = ' '.repeat(start.length);
    const painted = start.replace(result, paints[result](result));
    print(lines.map((line, index) => `${index === 0 ? painted : indent}${line}`).join('\n'));
  }
  const count = (result: Finding['result']) => findings.filter((one) => one.result === result).length;
  const [errors, warnings] = [count('error'), count('warning')];
  print(`${numbered(errors, 'error')}, ${numbered(warnings, 'warning')} (kubectl maintenance ${version})`);
}
