/**
 * A rule for oxlint: code that must give the same answer every time does not read the clock. `new Date(milliseconds)` and
 * `Date.parse(text)` only convert. In JavaScript, because oxlint may be started by any Node, in an editor for example.
 */

const message = 'Time is an argument, never read here.';

const isDate = (node) => node.type === 'Identifier' && node.name === 'Date';

const isDateNow = (node) =>
  node.type === 'MemberExpression' && isDate(node.object) && node.property.name === 'now';

const noClock = {
  create: (context) => ({
    NewExpression(node) {
      if (isDate(node.callee) && node.arguments.length === 0) context.report({ node, message });
    },
    CallExpression(node) {
      if (isDate(node.callee) || isDateNow(node.callee)) context.report({ node, message });
    },
  }),
};

export default { meta: { name: 'pure' }, rules: { 'no-clock': noClock } };
