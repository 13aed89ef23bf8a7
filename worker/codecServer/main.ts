import { once } from 'node:events';
import { CommanderError } from 'commander';
import { errorMessage } from '../../kube/errors.ts';
import { payloadSettings } from '../../temporal-config/connection.ts';
import { createLogger, toLog } from '../../process/log.ts';
import { payloadObserver } from '../payloadObserver.ts';
import { serveCodec } from './codecServer.ts';
import { type CodecServerConfig, parseCodecServerConfig } from './settings.ts';

const config = configOrExit();
const log = toLog(createLogger(config.logLevel));
const { address, tls, authorization, origins } = config;

try {
  const observer = payloadObserver(log, { onDecryptionFailure: () => undefined });
  const { dataConverter, encryptsPayloads } = payloadSettings(process.env, observer);
  const [codec] = dataConverter.payloadCodecs ?? [];
  if (codec === undefined || !encryptsPayloads)
    throw new Error('NODE_MAINTENANCE_PAYLOAD_KEYS: required: set it to the folder of the keys');
  const server = await serveCodec(codec, config, log);
  const scheme = tls === undefined ? 'http' : 'https';
  log.info('Codec server started', { address, port: server.port, scheme, origins });
  if (authorization.anonymous) log.warn('Everyone who can connect is answered');
  if (tls === undefined && !/^(127\.|::1$)/.test(address))
    log.warn('Tokens and decrypted payloads are sent without TLS: use it behind a proxy that adds TLS only');
  await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  server.close();
  log.info('Stopped');
  process.exit(0);
} catch (error) {
  process.stderr.write(`${errorMessage(error)}\n`);
  process.exit(1);
}

function configOrExit(): CodecServerConfig {
  try {
    return parseCodecServerConfig(process.argv.slice(2), process.env);
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    process.stderr.write(`${errorMessage(error)}\n`);
    process.exit(2);
  }
}
