import { testShortRuns } from './shortRuns.ts';

// StatefulSets behind budgets. A pod that replaces one of the same name may count as disrupted for two minutes.
testShortRuns({ evictionApi: 'lifecycle', seeds: [9] }, { evictionApi: 'auto', seeds: [10, 11, 12] });
