import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

/**
 * Loaded first by the programs of this repository that tests start: they find the Kubernetes client bundled, as the tests do
 * (jest.config.mjs), and start in two thirds of the time.
 */
const client = process.env['NM_TEST_KUBERNETES_CLIENT'];
if (client !== undefined) {
  const { href } = pathToFileURL(client);
  registerHooks({
    resolve: (specifier, context, nextResolve) =>
      nextResolve(specifier === '@kubernetes/client-node' ? href : specifier, context),
  });
}
