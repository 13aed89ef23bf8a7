import { type Command, InvalidArgumentError } from 'commander';
import { AGENT_SERVICE_ACCOUNT, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { clusterAccess, type ClusterAccess } from '../../kube/config.ts';
import { resources } from '../../kube/resources.ts';
import { withRemedy } from '../../node-lease/remedy.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { CommandError, formatObject, print } from '../output.ts';

interface KubeconfigOptions extends ClusterOptions {
  readonly namespace: string;
  /** Validity of the token in hours. */
  readonly duration: number;
}

/** A week: an agent renews its token at half of this, and may be switched off for as long. */
const defaultHours = 168;
/** The policy agent-tokens.nodemaintenance.k8s.io lets agents renew no longer ones. */
const maxHours = 720;

const remedy = `create serviceaccounts/token for ServiceAccount ${AGENT_SERVICE_ACCOUNT} and get nodes must be allowed, as for an administrator`;

/** kubectl maintenance agent kubeconfig */
export function addAgentVerbs(program: Command): void {
  const agent = program
    .command('agent')
    .description('give nodes what their node agents need')
    .helpCommand(false);
  agent
    .command('kubeconfig')
    .description(
      "print a kubeconfig for the node agent of a node; its token may change this node's objects only",
    )
    .argument('<node>')
    .option(
      '--duration <hours>',
      'validity of the token, which the agent renews at half of it',
      hours,
      defaultHours,
    )
    .option('--namespace <name>', 'namespace of the installation', SYSTEM_NAMESPACE)
    .action((node: string, _options, command: Command) => kubeconfig(node, command.optsWithGlobals()));
}

function hours(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || value > maxHours)
    throw new InvalidArgumentError(`expected whole hours, 1 to ${maxHours}`);
  return value;
}

async function kubeconfig(
  name: string,
  { namespace, duration, ...cluster }: KubeconfigOptions,
): Promise<void> {
  const access = clusterAccess(cluster);
  if (access.skipsVerification && access.authority === undefined)
    throw new CommandError(
      'the kubeconfig skips the verification of certificates (insecure-skip-tls-verify), which an agent never does: use one with certificate-authority-data',
    );
  await withCluster(cluster, async (kube) => {
    const node = await withRemedy(kube.get(resources.nodes, { name }), remedy);
    if (node === undefined)
      throw new CommandError(`node ${name} does not exist: the token is bound to a Node`);
    const account = { namespace, name: AGENT_SERVICE_ACCOUNT };
    const about = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata.uid };
    const expirationSeconds = duration * 3_600;
    const token = await withRemedy(
      kube.requestNodeToken(account, { node: about, expirationSeconds }),
      remedy,
    );
    print(formatObject(kubeconfigOf(access, token), 'yaml'));
  });
}

/** Returns a kubeconfig that contains everything, so that it can be copied to the node. */
function kubeconfigOf({ server, authority, tlsServerName }: ClusterAccess, token: string): object {
  const [cluster, user, context] = ['cluster', AGENT_SERVICE_ACCOUNT, 'node-agent'];
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: cluster,
        cluster: {
          server,
          ...(authority !== undefined && {
            'certificate-authority-data': Buffer.from(authority).toString('base64'),
          }),
          ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
        },
      },
    ],
    users: [{ name: user, user: { token } }],
    contexts: [{ name: context, context: { cluster, user } }],
    'current-context': context,
  };
}
