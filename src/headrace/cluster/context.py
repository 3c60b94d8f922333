"""What a decision may look at beside the image and the request.

Owns: `DecisionContext`. The configuration is this controller's own: it
gives the defaults of new topics and what their configs fall back to.
"""

from dataclasses import dataclass

from headrace.base.broker_config import BrokerConfig
from headrace.base.randomness import Random


@dataclass(frozen=True, slots=True)
class DecisionContext:
    config: BrokerConfig
    random: Random
    api_version: int
    principal: str = "User:ANONYMOUS"
