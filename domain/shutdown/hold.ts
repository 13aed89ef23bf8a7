import type { ShutdownStep } from './maintenance.ts';

/** A shutdown of this node in progress. All times are in seconds. */
export interface ShutdownProgress {
  /** Seconds since PrepareForShutdown. */
  readonly elapsedSeconds: number;
  /** When the agent lets the node go at the latest. */
  readonly limitSeconds: number;
  /** The part of that time that the kubelet needs to terminate pods itself. */
  readonly kubeletSeconds: number;
  /** Seconds since an apiserver last had the maintenance, or since PrepareForShutdown. */
  readonly silentSeconds: number;
  /** Time without an apiserver after which the kubelet terminates pods itself. */
  readonly apiserverTimeoutSeconds: number;
  /** The last step that was decided for the maintenance. */
  readonly maintenance: ShutdownStep['kind'] | undefined;
  /** Whether the kubelet delays the shutdown, too. Undefined if logind does not answer. */
  readonly kubeletDelays: boolean | undefined;
}

/** Why the shutdown continues. */
export const ShutdownCause = {
  /** All pods have left. */
  Drained: 'Drained',
  /** A user has completed the maintenance. */
  Ended: 'Ended',
  /** The time is up, or only the kubelet's part of it remains. */
  Limit: 'Limit',
  /** No apiserver has accepted the maintenance. */
  NoApiserver: 'NoApiserver',
} as const;
export type ShutdownCause = (typeof ShutdownCause)[keyof typeof ShutdownCause];

/**
 * The next step of the agent. The kubelet terminates the pods that are left when it is notified; the node shuts down when the agent and the
 * kubelet no longer delay it.
 */
export type ShutdownDecision =
  | { readonly kind: 'Hold' }
  | { readonly kind: 'NotifyKubelet'; readonly cause: ShutdownCause }
  | { readonly kind: 'Release'; readonly cause: ShutdownCause };

const hold: ShutdownDecision = { kind: 'Hold' };

/** The steps of the maintenance after which there is nothing to wait for. */
const overCauses: Partial<Record<ShutdownStep['kind'], ShutdownCause>> = {
  Drained: ShutdownCause.Drained,
  EndedByUser: ShutdownCause.Ended,
};

/** Decides whether the shutdown is delayed further. */
export function decideShutdown(progress: ShutdownProgress): ShutdownDecision {
  const { elapsedSeconds, limitSeconds, kubeletSeconds, kubeletDelays, maintenance } = progress;
  const cause = maintenance && overCauses[maintenance];
  // The kubelet is notified through logind, and would delay the shutdown without knowing of it.
  if (cause !== undefined && kubeletDelays !== undefined) return { kind: 'Release', cause };
  if (elapsedSeconds >= limitSeconds) return { kind: 'Release', cause: ShutdownCause.Limit };
  if (progress.silentSeconds >= progress.apiserverTimeoutSeconds)
    // The agent delays no longer than the kubelet does: nothing else can be expected of it.
    return { kind: kubeletDelays === false ? 'Release' : 'NotifyKubelet', cause: ShutdownCause.NoApiserver };
  const needsTime = kubeletDelays === false ? 0 : kubeletSeconds;
  return elapsedSeconds >= limitSeconds - needsTime
    ? { kind: 'NotifyKubelet', cause: ShutdownCause.Limit }
    : hold;
}

/** The limits of a shutdown, in seconds. */
export interface ShutdownLimits {
  /** How long the agent delays a shutdown. */
  readonly limitSeconds: number;
  /** Why the limit is less than configured; undefined if it is not. */
  readonly problem?: string;
}

/** `wantedSeconds`: undefined for as long as logind permits. `kubeletSeconds`: what the kubelet needs of it. */
export function shutdownLimits(
  { wantedSeconds, kubeletSeconds }: { wantedSeconds: number | undefined; kubeletSeconds: number },
  inhibitDelayMaxSeconds: number,
): ShutdownLimits {
  const limitSeconds = Math.min(wantedSeconds ?? inhibitDelayMaxSeconds, inhibitDelayMaxSeconds);
  const neededSeconds = Math.max(wantedSeconds ?? 0, kubeletSeconds + 1);
  if (wantedSeconds !== undefined && wantedSeconds <= kubeletSeconds)
    return {
      limitSeconds,
      problem: `the agent delays a shutdown for ${wantedSeconds} s, of which a kubelet that delays shutdowns gets ${kubeletSeconds} s, so that nothing would be drained: set SHUTDOWN_LIMIT, or the sum of SHUTDOWN_PRIORITIES, to more than ${kubeletSeconds} s, or KUBELET_SHUTDOWN_PERIOD to the shutdownGracePeriod of the kubelet`,
    };
  if (neededSeconds <= inhibitDelayMaxSeconds) return { limitSeconds };
  return {
    limitSeconds,
    problem: `logind delays a shutdown for ${inhibitDelayMaxSeconds} s at most, and the agent needs ${neededSeconds} s: set InhibitDelayMaxSec=${neededSeconds} in a file in /etc/systemd/logind.conf.d/ that sorts after the others, such as 99-node-maintenance-agent.conf, and run systemctl kill -s HUP systemd-logind`,
  };
}
