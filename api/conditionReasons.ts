/** Documents the reasons of a condition type for docs/reference/events-and-conditions.md. */
interface ConditionTypeFacts {
  readonly meaning: string;
  readonly reasons: Readonly<Record<string, ConditionReasonFacts>>;
}

interface ConditionReasonFacts {
  readonly status: readonly ('True' | 'False' | 'Unknown')[];
  readonly meaning: string;
}

const blockerReasons = {
  DeletionRejected: {
    status: ['True'],
    meaning: 'The apiserver or an admission webhook rejects the deletion of the DaemonSet pod.',
  },
  DisruptionBudget: {
    status: ['True'],
    meaning: 'A PodDisruptionBudget does not allow the eviction now; the eviction waits until it does.',
  },
  DisruptionBudgetNeverAllows: {
    status: ['True'],
    meaning: 'A PodDisruptionBudget can never allow the eviction; add a replica or relax the budget.',
  },
  EvictionRejected: {
    status: ['True'],
    meaning: 'The apiserver or an admission webhook rejects the eviction.',
  },
  MultipleDisruptionBudgets: {
    status: ['True'],
    meaning: 'Several PodDisruptionBudgets select the pod, which the eviction API does not support.',
  },
  PodRecreated: {
    status: ['True'],
    meaning: 'The controller recreated its pod on the node right after the previous one was deleted.',
  },
  StuckTerminating: { status: ['True'], meaning: 'The pod still exists after its grace period.' },
} as const satisfies ConditionTypeFacts['reasons'];

const asExpected = { status: ['True'], meaning: 'The condition is fulfilled.' } as const;

const stalled = {
  meaning:
    'The workflow of the object makes no progress; the object has the condition only if that has happened.',
  reasons: {
    WorkflowContinues: { status: ['False'], meaning: 'The workflow makes progress again.' },
    WorkflowFailed: {
      status: ['True'],
      meaning: 'Runs of the workflow fail soon after each start; they are started again with growing pauses.',
    },
    WorkflowReplaced: {
      status: ['False'],
      meaning: 'The run that could not continue was terminated, and a new one continues from the object.',
    },
    WorkflowTaskFailed: {
      status: ['True'],
      meaning:
        'The workflow task of the run fails again and again; the run is replaced after `--stalled-run-timeout`.',
    },
  },
} as const satisfies ConditionTypeFacts;

/** Runs of windows wait for other runs, which is no failure. */
const stalledMaintenance = {
  ...stalled,
  reasons: {
    ActivityFailed: {
      status: ['True'],
      meaning: 'An activity of the workflow fails again and again; it is tried again until it succeeds.',
    },
    ...stalled.reasons,
    WorkflowTaskNotPolled: {
      status: ['True'],
      meaning:
        'No worker takes the workflow task of the run, for example because Temporal routes it to another version.',
    },
  },
} as const satisfies ConditionTypeFacts;

const readinessReasons = {
  Flapping: {
    status: ['False'],
    meaning:
      'Readiness gates were lost repeatedly; the node must stay ready for a while before the taint is removed.',
  },
  GatesLost: {
    status: ['False'],
    meaning: 'A blocking gate is not ready, and the taint is added when its grace period ends.',
  },
  GatesNotReady: { status: ['False'], meaning: 'At least one blocking gate is not ready.' },
  GatesReady: { status: ['True'], meaning: 'All blocking gates are ready.' },
} as const satisfies ConditionTypeFacts['reasons'];

/** The condition types of each kind that this project writes, with all of their reasons. */
export const conditionReasons = {
  NodeMaintenance: {
    CapacityAvailable: {
      meaning:
        'The pods that are left fit on other nodes, by the rules of the default scheduler. A NodeMaintenance has it if it requires capacity, or once pods have not fitted.',
      reasons: {
        Deadlock: {
          status: ['False'],
          meaning:
            'Pods are Pending because maintenances have cordoned every node on which they fit, and the budget of the pods that remain waits for them; the message names the maintenance whose completion resolves it.',
        },
        PodsDoNotFit: { status: ['False'], meaning: 'Pods fit on no other node now; the message says why.' },
        PodsFit: { status: ['True'], meaning: 'All pods that are left fit on other nodes.' },
        PodsPending: {
          status: ['False'],
          meaning: 'Pods are Pending and would fit on nodes that the maintenance has cordoned.',
        },
        VolumesUnknown: {
          status: ['False'],
          meaning: 'Pods wait until the volumes that their claims are bound to are read.',
        },
        WaitingForMaintenance: {
          status: ['False'],
          meaning: 'Pods wait because free capacity is allocated to another maintenance first.',
        },
      },
    },
    DrainDeadlineExceeded: {
      meaning:
        'The nodes were not drained at the deadline of the drain. A NodeMaintenance has the condition only if that has happened.',
      reasons: {
        Drained: { status: ['False'], meaning: 'The nodes were drained after the deadline.' },
        PodsRemain: { status: ['True'], meaning: 'The deadline has passed, and pods are left.' },
      },
    },
    Drained: {
      meaning: 'All pods that can be evacuated have left the nodes.',
      reasons: {
        AllPodsTerminated: { status: ['True'], meaning: 'No pod is left on the nodes.' },
        Blocked: { status: ['False'], meaning: 'At least one pod cannot leave without intervention.' },
        CordonRejected: {
          status: ['False'],
          meaning: 'Pods are left only on nodes whose cordon the apiserver rejects.',
        },
        Draining: {
          status: ['False'],
          meaning: 'Pods are being evacuated, or the worker verifies that none is left.',
        },
        NoNodeMatches: { status: ['False'], meaning: 'No node matches .spec.nodeSelector.' },
        NotAuthorized: {
          status: ['False'],
          meaning:
            'Pods are left only on nodes that the user who requested the maintenance may not maintain.',
        },
        StaticPodsRemain: { status: ['True'], meaning: 'Only static pods that keep running are left.' },
        VolumesAttached: {
          status: ['False'],
          meaning: 'No pod is left, but volumes of pods that have left are still attached to nodes.',
        },
        VolumesRemain: {
          status: ['True'],
          meaning: 'No pod is left, and the deadline passed while volumes were still attached.',
        },
        WaitingForNodeLease: {
          status: ['False'],
          meaning: 'Other clients hold the maintenance Leases of nodes.',
        },
        WorkInProgress: {
          status: ['False'],
          meaning: 'No pod is left to evacuate, but the Job of another maintenance works on a node.',
        },
      },
    },
    EvictionRequestsServed: {
      meaning:
        'Whether a controller serves EvictionRequests (lifecycle.k8s.io). A NodeMaintenance has the condition only if `--eviction-api` is `lifecycle` or `auto`.',
      reasons: {
        ApiNotServed: {
          status: ['False'],
          meaning: 'The apiserver does not serve the API, or the worker may not list its objects.',
        },
        AwaitingController: {
          status: ['Unknown'],
          meaning: 'No EvictionRequest has been answered yet.',
        },
        ControllerResponds: { status: ['True'], meaning: 'A controller has answered an EvictionRequest.' },
        NoController: {
          status: ['False'],
          meaning:
            'No controller has answered an EvictionRequest within `--eviction-request-response-timeout`.',
        },
      },
    },
    MutationsInApiserver: {
      meaning:
        'Policies in the apiserver record who requests a change and keep pods of DaemonSets off drained nodes. Present only after webhooks of the admission server have replaced them.',
      reasons: {
        PoliciesInstalled: { status: ['True'], meaning: 'The policies are installed by now.' },
        PoliciesNotInstalled: {
          status: ['False'],
          meaning:
            'Webhooks replace the policies, which the apiserver would serve: apply the installation again.',
        },
        PoliciesNotServed: {
          status: ['False'],
          meaning:
            'Webhooks replace the policies, which Kubernetes before 1.36 does not serve: what is weaker while no admission server runs is in the message.',
        },
      },
    },
    NodeLeasesHeld: {
      meaning: 'The maintenance holds the maintenance Leases of all its nodes.',
      reasons: {
        Held: { status: ['True'], meaning: 'All Leases are held.' },
        Released: {
          status: ['False'],
          meaning: 'The Leases were released because the nodes are uncordoned.',
        },
        Waiting: { status: ['False'], meaning: 'Other clients hold Leases that the maintenance needs.' },
      },
    },
    NodesAuthorized: {
      meaning: 'The user who requested the maintenance may maintain all nodes that it selects.',
      reasons: {
        Authorized: { status: ['True'], meaning: 'The user may delete all of them.' },
        NotAuthorized: {
          status: ['False'],
          meaning:
            'The user may not delete some of them, or is not recorded; nothing is started on these nodes.',
        },
      },
    },
    Paused: {
      meaning: 'A user paused the maintenance.',
      reasons: {
        PauseRequested: {
          status: ['True'],
          meaning: 'No new Evacuation and no new tier starts until the maintenance is resumed.',
        },
        Resumed: { status: ['False'], meaning: 'The maintenance was resumed.' },
      },
    },
    Progressing: {
      meaning:
        'The workflow of the maintenance can start and advance. Absent until Temporal has been unavailable for the first time.',
      reasons: {
        TemporalAvailable: {
          status: ['True'],
          meaning: 'Temporal is available again, or nothing is left that requires it.',
        },
        TemporalUnavailable: {
          status: ['False'],
          meaning: 'Temporal is unavailable: no stage starts or advances; existing Evacuations continue.',
        },
      },
    },
    Stalled: stalledMaintenance,
    Succeeded: {
      meaning: "The maintenance of the window's node succeeded.",
      reasons: {
        Advanced: {
          status: ['True', 'Unknown'],
          meaning: 'A user marked the work as done; Unknown until the node is back in service.',
        },
        AgentNotRunning: {
          status: ['False'],
          meaning:
            'The node agent, which would reboot the drained node, did not run for too long, or has no reboot command.',
        },
        BootIdUnknown: {
          status: ['False'],
          meaning: 'The kubelet had not reported the boot ID of a node that is to be rebooted.',
        },
        Cancelled: {
          status: ['False'],
          meaning:
            'The maintenance was cancelled before the work was done; a window maintains the node again.',
        },
        CompletedEarly: {
          status: ['False'],
          meaning: 'The NodeMaintenance was completed before the work was done.',
        },
        Done: { status: ['True'], meaning: 'The work is done and the node is in service.' },
        JobDeleted: { status: ['False'], meaning: 'The Job was deleted before it finished.' },
        JobFailed: { status: ['False'], meaning: 'The Job failed.' },
        JobRejected: { status: ['False'], meaning: 'The apiserver or an admission webhook rejects the Job.' },
        JobTerminationTimeout: {
          status: ['False'],
          meaning: 'The Job or the termination of its pods did not finish in time.',
        },
        NodeNotReady: {
          status: ['False'],
          meaning: 'The node did not become ready in time after the work.',
        },
        NodeReplaced: {
          status: ['False'],
          meaning: 'The Node object was recreated after its Job had started, or its reboot was requested.',
        },
        RebootTimeout: {
          status: ['False'],
          meaning: 'The node did not start again in time after its reboot was requested.',
        },
      },
    },
    WorkSucceeded: {
      meaning: 'The result of the Job that a window runs on the node, or of the reboot.',
      reasons: {
        JobStarted: { status: ['Unknown'], meaning: 'The Job is running.' },
        JobSucceeded: { status: ['True'], meaning: 'The Job succeeded.' },
        RebootNotRequired: {
          status: ['True'],
          meaning: 'The node did not need a reboot any more before it was requested.',
        },
        RebootRequested: {
          status: ['Unknown'],
          meaning: 'The node agent is asked to reboot the node, or is about to be asked.',
        },
        Rebooted: {
          status: ['True'],
          meaning: 'The node has another boot ID than when its maintenance was created.',
        },
      },
    },
  },
  MaintenanceWindow: {
    Scheduled: {
      meaning: 'The window opens at the times of its schedule.',
      reasons: {
        InvalidSpec: { status: ['False'], meaning: 'The spec is invalid; see the condition Valid.' },
        KeyMissing: {
          status: ['Unknown'],
          meaning: 'The worker does not have the key with which the Schedule is encrypted.',
        },
        Paused: {
          status: ['False'],
          meaning: 'The annotation `nodemaintenance.k8s.io/paused` pauses the window.',
        },
        PausedInTemporal: { status: ['False'], meaning: 'A user paused the Schedule in Temporal.' },
        Rejected: { status: ['False'], meaning: 'Temporal rejected the Schedule.' },
        Scheduled: { status: ['True'], meaning: 'The Schedule in Temporal is up to date.' },
        Suspended: { status: ['False'], meaning: '.spec.suspend is true.' },
        TemporalUnavailable: { status: ['Unknown'], meaning: 'Temporal is unavailable.' },
      },
    },
    Stalled: stalled,
    Valid: {
      meaning: 'The spec is valid, so that the window can be scheduled.',
      reasons: {
        Invalid: { status: ['False'], meaning: 'The message lists the problems with their fields.' },
        JobsNotEnabled: {
          status: ['False'],
          meaning:
            'The window runs a Job, and Jobs of windows are not enabled in the installation (deploy/window-jobs).',
        },
        Valid: { status: ['True'], meaning: 'The spec is valid.' },
      },
    },
  },
  Evacuation: {
    Blocked: { meaning: 'The Evacuation cannot make progress.', reasons: blockerReasons },
    EvacuatorsExhausted: {
      meaning: 'No evacuator remains, and the pod is being evicted.',
      reasons: {
        EvacuatorCompleted: {
          status: ['True'],
          meaning: 'The last evacuator reported completion, but the pod still exists.',
        },
        EvacuatorNotApplicable: {
          status: ['True'],
          meaning: 'The last evacuator is a built-in one that cannot serve the pod.',
        },
        EvacuatorNotResponding: {
          status: ['True'],
          meaning: 'No evacuator responded for the last class, which is not known to have one.',
        },
        ProgressDeadlineExceeded: {
          status: ['True'],
          meaning: 'The last evacuator did not report progress before its deadline.',
        },
      },
    },
  },
  NodeDisruptionBudget: {
    Exhausted: {
      meaning: 'Windows start no more nodes of the budget until it allows it.',
      reasons: {
        LimitReached: {
          status: ['True'],
          meaning: 'As many nodes are out of service as .spec.maxUnavailable allows.',
        },
        NoNodeSelected: { status: ['False'], meaning: '.spec.nodeSelector selects no node.' },
        NodesAvailable: { status: ['False'], meaning: 'The budget allows more nodes out of service.' },
        NoneAllowed: { status: ['True'], meaning: '.spec.maxUnavailable allows no node out of service.' },
      },
    },
  },
  NodeReadiness: {
    Ready: { meaning: 'All blocking readiness gates of the node are ready.', reasons: readinessReasons },
  },
  NodeReadinessPolicy: {
    GatesApplied: {
      meaning: 'All selected nodes have the gates of the policy.',
      reasons: {
        AsExpected: asExpected,
        Conflict: {
          status: ['False'],
          meaning: 'Another field manager defines a gate of the same name differently.',
        },
        InProgress: { status: ['False'], meaning: 'Some nodes do not have all gates yet.' },
        Rejected: { status: ['False'], meaning: 'The apiserver rejected the gates of some nodes.' },
        TooManyGates: { status: ['False'], meaning: 'Some nodes would exceed the limit of gates per node.' },
      },
    },
    NodesAuthorized: {
      meaning: 'The user who changed the policy last may gate all nodes that it selects.',
      reasons: {
        AsExpected: asExpected,
        NotAuthorized: {
          status: ['False'],
          meaning: 'The user may neither delete nor gate some of them; the gates are not set on these nodes.',
        },
      },
    },
    NotAllNodesSelected: {
      meaning: 'The policy does not select every node.',
      reasons: {
        AsExpected: asExpected,
        EveryNode: { status: ['False'], meaning: 'The policy selects every node of the cluster.' },
      },
    },
    OnePodPerNode: {
      meaning: 'Every gate selects at most one pod per node, and pods of a single controller.',
      reasons: {
        AsExpected: asExpected,
        TooManyPods: {
          status: ['False'],
          meaning: 'A gate selects several pods of a node, or pods of several controllers.',
        },
      },
    },
    SelectorsMatch: {
      meaning: 'Every gate selects a pod or a pod template.',
      reasons: {
        AsExpected: asExpected,
        NoPods: { status: ['False'], meaning: 'A gate selects no pod and no pod template.' },
      },
    },
    TaintTolerated: {
      meaning: 'The workloads of the gates tolerate the readiness taint, so that their pods can start.',
      reasons: {
        AsExpected: asExpected,
        TaintNotTolerated: {
          status: ['False'],
          meaning: 'A workload does not tolerate the readiness taint; its gate is suppressed.',
        },
      },
    },
  },
  Node: {
    DrainInProgress: {
      meaning: 'A NodeMaintenance drains the node.',
      reasons: {
        AdminRequested: { status: ['True'], meaning: 'The message names the maintenances.' },
        DrainCompleted: { status: ['False'], meaning: 'The node is drained.' },
        NotRequested: { status: ['False'], meaning: 'No NodeMaintenance drains the node.' },
      },
    },
    Drained: {
      meaning: 'The node is drained.',
      reasons: {
        AdminRequested: { status: ['False'], meaning: 'A drain is in progress.' },
        DrainCompleted: { status: ['True'], meaning: 'The node is drained.' },
        NotRequested: { status: ['False'], meaning: 'No NodeMaintenance drains the node.' },
      },
    },
    MaintenanceInProgress: {
      meaning: 'A NodeMaintenance holds the node.',
      reasons: { AdminRequested: { status: ['True'], meaning: 'The message names the maintenances.' } },
    },
    'readiness.k8s.io/GatesReady': {
      meaning: 'Mirrors the condition Ready of the NodeReadiness of the node, for autoscalers.',
      reasons: readinessReasons,
    },
  },
  Pod: {
    Ready: {
      meaning: 'Set on gated DaemonSet pods only, so that the rolling update of the DaemonSet continues.',
      reasons: {
        SchedulingGated: {
          status: ['True'],
          meaning: 'The pod is not running; its scheduling gate is removed when the maintenance ends.',
        },
      },
    },
  },
} as const satisfies Record<string, Record<string, ConditionTypeFacts>>;
