"""
logind of a node: the template of python-dbusmock, which hands out inhibitor locks, with what it lacks of a shutdown (org.freedesktop.login1(5)):
PrepareForShutdown, the wait for delay locks, and the end.
"""

import os
import signal
import time

import dbus
from dbusmock import mockobject
from dbusmock.templates import logind
# AddTemplate looks for these names.
from dbusmock.templates.logind import BUS_NAME, MAIN_IFACE, MAIN_OBJ, SYSTEM_BUS, Inhibit, ListInhibitors  # noqa: F401
from gi.repository import GLib

CHECK_INTERVAL_MS = 50


def load(mock, parameters):
    logind.load(mock, parameters)
    mock.AddProperty(MAIN_IFACE, 'InhibitDelayMaxUSec', dbus.UInt64(parameters['InhibitDelayMaxUSec']))
    mock.AddMethods(MAIN_IFACE, [
        ('Reboot', 'b', '', lambda self, interactive: shut_down(self, signal.SIGTERM)),
        ('PowerOff', 'b', '', lambda self, interactive: shut_down(self, signal.SIGUSR2)),
        ('SetWallMessage', 'sb', '', ''),
    ])


def shut_down(mock, number):
    """Sends the signal to the first process (node.sh) when no delay lock is held any more, at the latest after InhibitDelayMaxUSec."""
    if mock.Get(MAIN_IFACE, 'PreparingForShutdown'):
        raise dbus.exceptions.DBusException(
            'There is already a shutdown operation in progress',
            name='org.freedesktop.login1.OperationInProgress')
    mock.UpdateProperties(MAIN_IFACE, {'PreparingForShutdown': True})
    mock.EmitSignal(MAIN_IFACE, 'PrepareForShutdown', 'b', [True])
    deadline = time.monotonic() + mock.Get(MAIN_IFACE, 'InhibitDelayMaxUSec') / 1_000_000

    def check():
        if is_delayed() and time.monotonic() < deadline:
            return True
        os.kill(1, number)
        return False

    GLib.timeout_add(CHECK_INTERVAL_MS, check)


def is_delayed():
    return any('shutdown' in what.split(':') and mode == 'delay'
               for what, _, _, mode, _, _ in getattr(mockobject, 'inhibitors', []))
