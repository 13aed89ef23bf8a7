/**
 * Rules for oxlint: deterministic code does not read the clock, and its modules have no state, because all runs of a worker share them. The clock's rule
 * allows `new Date(milliseconds)` and `Date.parse(text)`, which only convert. Written in JavaScript, because any version of Node may start oxlint, for
 * example in an editor.
 */

const clockMessage = 'Do not read the clock here: pass the time as an argument.';

const isDate = (node) => node.type === 'Identifier' && node.name === 'Date';

const isDateNow = (node) =>
  node.type === 'MemberExpression' && isDate(node.object) && node.property.name === 'now';

const noClock = {
  create: (context) => ({
    NewExpression(node) {
      if (isDate(node.callee) && node.arguments.length === 0) context.report({ node, message: clockMessage });
    },
    CallExpression(node) {
      if (isDate(node.callee) || isDateNow(node.callee)) context.report({ node, message: clockMessage });
    },
  }),
};

const stateMessage = 'All runs of a worker share this module: keep state in the run, or pass it as an argument.';

const isEmptyCollection = (node) =>
  node?.type === 'NewExpression' &&
  /^(Weak)?(Map|Set)$/.test(node.callee.name ?? '') &&
  node.arguments.length === 0;

const declarationsOf = (statement) => {
  const declared = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
  return declared?.type === 'VariableDeclaration' ? [declared] : [];
};

/** A variable of a module, or a collection that is empty when the module is loaded and so has no other use. */
const noModuleState = {
  create: (context) => ({
    Program({ body }) {
      for (const node of body.flatMap(declarationsOf))
        if (node.kind !== 'const' || node.declarations.some(({ init }) => isEmptyCollection(init)))
          context.report({ node, message: stateMessage });
    },
  }),
};

export default { meta: { name: 'pure' }, rules: { 'no-clock': noClock, 'no-module-state': noModuleState } };
