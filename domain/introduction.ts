import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { code } from './markdown.ts';
import { cut } from './text.ts';

/** What Temporal keeps of a run from its start, for whoever finds it in a list. */
export interface Introduction {
  /** One line. */
  staticSummary: string;
  /** Markdown. */
  staticDetails: string;
  /** Shown, and not searched by; Temporal warns of more than 2 KiB. */
  memo: { [name: string]: string };
}

/** Temporal takes 400 bytes, of which a character may need three. */
const longestSummary = 120;
const longestMemo = 500;

export function introductionOf({ metadata: { name }, spec: { reason } }: NodeMaintenance): Introduction {
  const what = { kind: 'Maintenance', object: `nm ${name}`, kubectl: `kubectl maintenance status ${name}` };
  return introduction({ ...what, name, reason });
}

/** Of every run that the Schedule of a window starts. */
export function windowIntroductionOf({ metadata: { name }, spec }: MaintenanceWindow): Introduction {
  const what = { kind: 'Window', object: `mw ${name}`, kubectl: `kubectl get mw ${name} -o wide` };
  return introduction({ ...what, name, reason: spec.template.reason });
}

interface Introduced {
  kind: string;
  name: string;
  /** As kubectl is told it. */
  object: string;
  kubectl: string;
  reason: string | undefined;
}

function introduction({ kind, name, object, kubectl, reason }: Introduced): Introduction {
  return {
    staticSummary: cut(oneLine(reason || `${kind} ${name}`), longestSummary),
    staticDetails: `Does what the object says: ${code(`kubectl get ${object} -o yaml`)}. What it does now is under *Current Details*.`,
    memo: { ...(reason && { reason: cut(oneLine(reason), longestMemo) }), kubectl },
  };
}

function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ');
}
