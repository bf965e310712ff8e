// Signs and verifies agent cards with the SDK.
//
//   node card.js verify URL             # the card below URL, with the keys that its signatures name
//   node card.js sign CARD KEY KID JKU  # a card's file, as this SDK's server would serve it; KEY is a PEM file
//
// verify ends with status 0 where a signature holds, and with 1 where none does.

import { readFile } from 'node:fs/promises';
import { createPrivateKey } from 'node:crypto';
import { AgentCard, generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';
import { DefaultAgentCardResolver } from '@a2a-js/sdk/client';

const keyOf = async (kid, jku) => {
  const { keys } = await (await fetch(jku)).json();
  return keys.find((key) => key.kid === kid);
};

const [verb, ...args] = process.argv.slice(2);
if (verb === 'verify' && args.length === 1) {
  const card = await new DefaultAgentCardResolver().resolve(args[0]);
  try {
    await verifyAgentCardSignature(keyOf)(card);
  } catch (error) {
    console.error('not valid:', error.message);
    process.exit(1);
  }
  console.log('valid:', card.name);
} else if (verb === 'sign' && args.length === 4) {
  const [file, key, kid, jku] = args;
  const card = AgentCard.fromJSON(JSON.parse(await readFile(file, 'utf8')));
  const header = { alg: 'ES256', kid, jku, typ: 'JOSE' };
  const signer = generateAgentCardSignature(createPrivateKey(await readFile(key)), header);
  // The SDK's card handler answers with the object as it is.
  console.log(JSON.stringify(await signer(card)));
} else {
  console.error('usage: node card.js verify URL | sign CARD KEY KID JKU');
  process.exit(2);
}
