import type { Evacuation } from '../../api/evacuation.ts';
import {
  DEFAULT_EVACUATOR_RESPONSE_SECONDS,
  DEPLOYMENT_EVACUATOR,
  STATIC_POD_EVACUATOR,
} from '../../api/names.ts';
import { builtInEvacuators, hasResponded } from '../../domain/evacuation/evacuatorSelection.ts';
import type { DeploymentRegistration } from '../../domain/leases/processSummary.ts';

/** Settings for evacuators that do not respond. */
export interface EvacuatorSettings {
  /** Time within which an evacuator of an unknown class must respond. */
  readonly responseSeconds: number;
  /** Classes that are known from the start; `*` stands for every class. */
  readonly knownClasses: readonly string[];
  /** Whether this installation evacuates pods of Deployments; otherwise another controller may serve their class. */
  readonly deployments: boolean;
  /** automatic: that evacuator is also registered for pods without evacuators that only it can evacuate without a disruption. */
  readonly deploymentRegistration: DeploymentRegistration;
}

export const defaultEvacuatorSettings: EvacuatorSettings = {
  responseSeconds: DEFAULT_EVACUATOR_RESPONSE_SECONDS,
  knownClasses: [],
  deployments: true,
  deploymentRegistration: 'annotated',
};

/** The maximum number of classes that are remembered. */
const maxObserved = 1_000;

/**
 * The evacuator classes that are known to have an evacuator: built in, allowed by a setting, or observed to respond. An evacuator of a
 * known class has the whole progress deadline "to recover from a disruption" (KEP-4212 > Drain). The memory is lost with the process;
 * then a class is unknown until an evacuator of it responds again.
 */
export class KnownEvacuators {
  readonly #settings: EvacuatorSettings;
  readonly #known: Set<string>;

  constructor(settings: EvacuatorSettings) {
    this.#settings = settings;
    const served = builtInEvacuators.filter((name) => settings.deployments || name !== DEPLOYMENT_EVACUATOR);
    this.#known = new Set([...served, ...settings.knownClasses]);
  }

  /** Undefined if every class has the whole progress deadline. */
  get responseSeconds(): number | undefined {
    return this.#known.has('*') ? undefined : this.#settings.responseSeconds;
  }

  has(evacuatorClass: string): boolean {
    return this.#known.has(evacuatorClass);
  }

  observe(evacuation: Evacuation): void {
    const evacuatorClass = evacuation.status?.activeEvacuatorClass;
    if (evacuatorClass === undefined || this.#known.has(evacuatorClass)) return;
    // The agent of one node says nothing about that of another.
    if (evacuatorClass === STATIC_POD_EVACUATOR) return;
    if (hasResponded(evacuation) && this.#known.size < maxObserved) this.#known.add(evacuatorClass);
  }
}
