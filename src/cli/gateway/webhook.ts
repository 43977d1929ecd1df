import { admissionWebhook } from '../../api/webhook.ts';
import { listenAddresses } from '../../config/openAccess.ts';
import { bind } from '../listeners.ts';
import type { Control, GatewayContext } from './context.ts';

/**
 * Serves the admission webhook if it is enabled.
 * @throws GatewayError for a used port
 */
export async function openWebhook({ config, logger, onClose }: GatewayContext, { operator }: Control): Promise<void> {
  const { enabled, port, name } = config.resources.webhook;
  const { webhook, controller } = operator;
  if (!enabled || webhook === undefined) return;
  const server = admissionWebhook((resource) => controller.rejection(resource), logger);
  const { followWebhookCertificate } = await import('../../operator/webhook/webhookCertificate.ts');
  onClose(followWebhookCertificate(webhook, name, (cert, key) => server.setSecureContext({ cert, key })));
  const [address] = listenAddresses(config.server.address);
  const bound = await bind(server, address, port, 'resources.webhook.port');
  onClose(() => {
    server.close();
    server.closeAllConnections();
  });
  logger.info({ url: `https://${bound}` }, 'admission webhook listening');
}
