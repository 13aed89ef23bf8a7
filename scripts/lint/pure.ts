/** A rule for oxlint: code that must give the same answer every time does not read the clock. */

/** The parts of an ESTree node that the rule looks at. */
interface Call {
  callee: { type: string; name?: string; object?: { name?: string }; property?: { name?: string } };
  arguments: readonly unknown[];
}

interface RuleContext {
  report(problem: { node: Call; message: string }): void;
}

const noClock = {
  create(context: RuleContext) {
    const report = (node: Call) => context.report({ node, message: 'Time is an argument, never read here.' });
    return {
      // `new Date(milliseconds)` and `Date.parse(text)` only convert.
      NewExpression: (node: Call) => {
        if (node.callee.name === 'Date' && node.arguments.length === 0) report(node);
      },
      CallExpression: (node: Call) => {
        const { name, object, property } = node.callee;
        if (name === 'Date' || (object?.name === 'Date' && property?.name === 'now')) report(node);
      },
    };
  },
};

export default { meta: { name: 'pure' }, rules: { 'no-clock': noClock } };
