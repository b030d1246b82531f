"""Why a job does not go on: the actors' answers put together, and the conclusion from them."""
