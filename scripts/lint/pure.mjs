/**
 * A rule for oxlint: deterministic code does not read the clock. It allows `new Date(milliseconds)` and `Date.parse(text)`,
 * which only convert. Written in JavaScript, because any version of Node may start oxlint, for example in an editor.
 */

const message = 'Do not read the clock here: pass the time as an argument.';

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
