import { testShortRuns } from './shortRuns.ts';

// Without StatefulSets behind budgets: a pod that replaces one of the same name may count as disrupted for two minutes.
testShortRuns({ evictionApi: 'lifecycle', seeds: [7, 8, 78] }, { evictionApi: 'auto', seeds: [23, 44, 94] });
