/** A certificate and its private key, as PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}
