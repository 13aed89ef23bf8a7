"""
logind of a node: the template of python-dbusmock with what it lacks of a shutdown (org.freedesktop.login1(5)): whose the inhibitor locks are,
PrepareForShutdown, the wait for delay locks, and the end.
"""

import os
import signal
import time

import dbus
from dbusmock.templates import logind
# AddTemplate looks for these names.
from dbusmock.templates.logind import BUS_NAME, MAIN_IFACE, MAIN_OBJ, SYSTEM_BUS  # noqa: F401
from gi.repository import GLib

CHECK_INTERVAL_MS = 50


def load(mock, parameters):
    logind.load(mock, parameters)
    mock.inhibitors = {}
    mock.AddProperty(MAIN_IFACE, 'InhibitDelayMaxUSec', dbus.UInt64(parameters['InhibitDelayMaxUSec']))
    mock.AddMethods(MAIN_IFACE, [
        ('Reboot', 'b', '', lambda self, interactive: shut_down(self, signal.SIGTERM)),
        ('PowerOff', 'b', '', lambda self, interactive: shut_down(self, signal.SIGUSR2)),
        ('SetWallMessage', 'sb', '', ''),
    ])


@dbus.service.method(MAIN_IFACE, in_signature='ssss', out_signature='h', sender_keyword='sender', connection_keyword='connection')
def Inhibit(self, what, who, why, mode, sender=None, connection=None):
    refuse_during_shutdown(self)
    bus = connection.get_object('org.freedesktop.DBus', '/org/freedesktop/DBus', introspect=False)
    uid = bus.GetConnectionUnixUser(sender, dbus_interface='org.freedesktop.DBus')
    pid = bus.GetConnectionUnixProcessID(sender, dbus_interface='org.freedesktop.DBus')
    read_end, write_end = os.pipe()
    self.inhibitors[read_end] = (what, who, why, mode, dbus.UInt32(uid), dbus.UInt32(pid))

    def dropped(descriptor, _condition):
        os.close(descriptor)
        del self.inhibitors[descriptor]
        return False

    GLib.unix_fd_add_full(GLib.PRIORITY_HIGH, read_end, GLib.IO_HUP, dropped)
    # The answer contains a duplicate.
    GLib.idle_add(os.close, write_end)
    return dbus.types.UnixFd(write_end)


@dbus.service.method(MAIN_IFACE, in_signature='', out_signature='a(ssssuu)')
def ListInhibitors(self):
    return dbus.Array(self.inhibitors.values(), signature='(ssssuu)')


def shut_down(mock, number):
    """Sends the signal to the first process (node.sh) when no delay lock is held any more, at the latest after InhibitDelayMaxUSec."""
    refuse_during_shutdown(mock)
    mock.UpdateProperties(MAIN_IFACE, {'PreparingForShutdown': dbus.Boolean(True)})
    mock.EmitSignal(MAIN_IFACE, 'PrepareForShutdown', 'b', [dbus.Boolean(True)])
    deadline = time.monotonic() + mock.Get(MAIN_IFACE, 'InhibitDelayMaxUSec') / 1_000_000

    def check():
        if is_delayed(mock) and time.monotonic() < deadline:
            return True
        os.kill(1, number)
        return False

    GLib.timeout_add(CHECK_INTERVAL_MS, check)


def refuse_during_shutdown(mock):
    if mock.Get(MAIN_IFACE, 'PreparingForShutdown'):
        raise dbus.exceptions.DBusException(
            'There is already a shutdown operation in progress',
            name='org.freedesktop.login1.OperationInProgress')


def is_delayed(mock):
    return any('shutdown' in what.split(':') and mode == 'delay' for what, _, _, mode, _, _ in mock.inhibitors.values())
