import { Client, Connection } from '@temporalio/client';

/** A client of Temporal that counts its requests by the name of their method, such as `DescribeWorkflowExecution`. */
export interface CountingClient {
  client: Client;
  count(method: string): number;
  close(): Promise<void>;
}

export async function countingClient(address: string, namespace = 'default'): Promise<CountingClient> {
  const counts = new Map<string, number>();
  const connection = await Connection.connect({
    address,
    interceptors: [
      (options, nextCall) => {
        const method = options.method_definition.path.split('/').at(-1) ?? '';
        counts.set(method, (counts.get(method) ?? 0) + 1);
        return nextCall(options) as never;
      },
    ],
  });
  return {
    client: new Client({ connection, namespace }),
    count: (method) => counts.get(method) ?? 0,
    close: () => connection.close(),
  };
}

/** Counts how often `client` asks about each workflow with DescribeWorkflowExecution. */
export class DescribeCounter {
  readonly client: Client;
  readonly #counts = new Map<string, number>();

  constructor(connection: Client['connection']) {
    const { workflowService } = connection;
    type Request = { execution?: { workflowId?: string | null } | null };
    const describe = (request: Request) => {
      const workflowId = request.execution?.workflowId ?? '';
      this.#counts.set(workflowId, this.count(workflowId) + 1);
      return workflowService.describeWorkflowExecution(request as never);
    };
    const counting: unknown = Object.create(workflowService, {
      describeWorkflowExecution: { value: describe },
    });
    this.client = new Client({
      connection: Object.create(connection, { workflowService: { value: counting } }) as typeof connection,
    });
  }

  count(workflowId: string): number {
    return this.#counts.get(workflowId) ?? 0;
  }
}
