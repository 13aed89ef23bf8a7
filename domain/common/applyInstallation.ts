/** How the installation is applied, as it stands in the remedies of messages. Without the component, the webhooks before Kubernetes 1.36 are removed. */
export const applyInstallation =
  'kubectl apply --server-side -k deploy (before Kubernetes 1.36 with the component deploy/before-1.36), the Helm chart, or npm start -- --install';
