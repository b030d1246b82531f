"""The part of an environment that listens: without a way to do so there is no cluster either."""

from __future__ import annotations

import socket

import pytest

from flykka.api.rest_interface import RestInterface
from flykka.cluster.local_cluster import ClusterSettings, LocalCluster
from flykka.errors import ClusterError, ProgramError
from tests.flykka.cluster.test_local_cluster import SilentDataPlane


def test_a_cluster_whose_address_is_taken_is_shut_down_again() -> None:
    interface, cluster = RestInterface(), LocalCluster(SilentDataPlane(), ClusterSettings())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        interface.enable_rest(taken.getsockname()[1])

        with pytest.raises(ClusterError, match=r"no REST interface at 127.0.0.1"):
            interface._with_rest(cluster)

    assert cluster.system.terminated.done()
    assert interface.rest_address is None


def test_an_address_that_is_refused_is_an_error_of_the_program() -> None:
    with pytest.raises(ProgramError, match="can be reached from other machines"):
        RestInterface().enable_rest("0.0.0.0:8081")
