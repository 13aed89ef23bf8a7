/** APIs by which pods are asked to leave: Evacuations, EvictionRequests of lifecycle.k8s.io, or these where a controller serves them. */
export const evictionApis = ['evacuation', 'lifecycle', 'auto'] as const;
export type EvictionApi = (typeof evictionApis)[number];

export interface EvictionApiSettings {
  readonly api: EvictionApi;
  /** Time within which a controller must answer an EvictionRequest. */
  readonly responseSeconds: number;
}

export const defaultEvictionApi: EvictionApiSettings = { api: 'evacuation', responseSeconds: 30 };
