"""Signs and verifies agent cards with the SDK.

    python card.py verify URL            # the card below URL, with the keys that its signatures name
    python card.py sign CARD KEY KID JKU # a card's file, as this SDK's server would serve it; KEY is a PEM file

verify ends with status 0 where a signature holds, and with 1 where none does.
"""

import asyncio
import json
import pathlib
import sys

import httpx
from a2a.client import A2ACardResolver
from a2a.client.card_resolver import parse_agent_card
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.utils.signing import (
    SignatureVerificationError,
    create_agent_card_signer,
    create_signature_verifier,
)
from jwt import PyJWK


def key_of(kid, jku):
    for key in httpx.get(jku).raise_for_status().json()['keys']:
        if key['kid'] == kid:
            return PyJWK(key)
    raise KeyError(kid)


async def verify(url):
    verifier = create_signature_verifier(key_of, ['ES256'])
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card(signature_verifier=verifier)
    print('valid:', card.name)


def sign(card, key, kid, jku):
    header = {'alg': 'ES256', 'kid': kid, 'jku': jku, 'typ': 'JOSE'}
    signer = create_agent_card_signer(pathlib.Path(key).read_text(), header)
    signed = signer(parse_agent_card(json.loads(pathlib.Path(card).read_text())))
    json.dump(agent_card_to_dict(signed), sys.stdout)


if __name__ == '__main__':
    match sys.argv[1:]:
        case ['verify', url]:
            try:
                asyncio.run(verify(url))
            except SignatureVerificationError as e:
                sys.exit(f'not valid: {e}')
        case ['sign', card, key, kid, jku]:
            sign(card, key, kid, jku)
        case _:
            sys.exit(__doc__)
