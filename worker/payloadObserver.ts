import type { Log } from '../kube/log.ts';
import type { PayloadObserver } from '../temporal-config/connection.ts';

/** A task that fails is retried, and each payload of it fails again. */
const logAgainAfterMs = 60_000;
/** Every client of Temporal can name keys that nobody has. */
const maxLoggedReasons = 10;

/** Reports the state of the keys of payloads in log and metrics. */
export function payloadObserver(
  log: Log,
  { onDecryptionFailure }: { onDecryptionFailure: () => void },
): PayloadObserver {
  const logged = new Set<string>();
  let sinceMs = -logAgainAfterMs;
  return {
    onDecryptionFailure: ({ message: reason }) => {
      onDecryptionFailure();
      const nowMs = performance.now();
      if (nowMs - sinceMs >= logAgainAfterMs) {
        logged.clear();
        sinceMs = nowMs;
      }
      if (logged.has(reason) || logged.size >= maxLoggedReasons) return;
      logged.add(reason);
      log.error('Payload could not be decrypted', { reason });
    },
    onKeysProblem: (reason) =>
      reason === undefined
        ? log.info('Keys of payloads are valid again')
        : log.warn('Keys of payloads could not be reloaded, and the former ones stay in use', { reason }),
  };
}
