import { CLUSTER_UID_MEMO } from '../../api/names.ts';
import { isNameOrUid } from '../../domain/common/untrusted.ts';

/** Returns the UID of the cluster whose controller or Schedule started the run; undefined if it was started from Temporal. */
export function clusterUidIn(memo: Record<string, unknown> | undefined): string | undefined {
  const uid = memo?.[CLUSTER_UID_MEMO];
  return isNameOrUid(uid) ? uid : undefined;
}
